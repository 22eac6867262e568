package lint

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"strconv"
	"strings"
)

// snippet is a piece of a file's text that a rule looks into.
type snippet struct {
	pos  token.Pos
	text string
}

func comments(f *file) []snippet {
	var out []snippet
	for _, group := range f.syntax.Comments {
		for _, c := range group.List {
			out = append(out, snippet{c.Pos(), c.Text})
		}
	}
	return out
}

var subtestName = regexp.MustCompile(`^I\d{1,2}/`)

func subtestNames(f *file) []snippet {
	var out []snippet
	if !f.isTest() {
		return nil
	}
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if s, err := strconv.Unquote(lit.Value); err == nil && subtestName.MatchString(s) {
				out = append(out, snippet{lit.Pos(), s})
			}
		}
		return true
	})
	return out
}

// uses lists the selector expressions package.Name in a file whose package is imported under the path given.
func uses(f *file, importPath string) []*ast.SelectorExpr {
	if f.syntax == nil {
		return nil
	}
	local := ""
	for _, spec := range f.syntax.Imports {
		if p, err := strconv.Unquote(spec.Path.Value); err == nil && p == importPath {
			local = importPath[strings.LastIndexByte(importPath, '/')+1:]
			if spec.Name != nil {
				local = spec.Name.Name
			}
		}
	}
	if local == "" {
		return nil
	}
	var out []*ast.SelectorExpr
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if id, ok := sel.X.(*ast.Ident); ok && id.Name == local {
				out = append(out, sel)
			}
		}
		return true
	})
	return out
}

var untypedAtomic = regexp.MustCompile(`^(Load|Store|Add|Swap|CompareAndSwap|And|Or)(Int32|Int64|Uint32|Uint64|Uintptr|Pointer)$`)

func checkTypedAtomics(m *module) []finding {
	var found []finding
	for _, f := range m.files {
		if f.syntax != nil && f.generated() {
			continue
		}
		for _, use := range uses(f, "sync/atomic") {
			if untypedAtomic.MatchString(use.Sel.Name) {
				found = append(found, finding{f.path, m.at(use.Pos()), fmt.Sprintf("atomic.%s: give the field a typed atomic such as atomic.Uint64 instead", use.Sel.Name)})
			}
		}
	}
	return found
}

var sleepReason = regexp.MustCompile(`// sleep: \S+ \S+`)

// checkSleep forbids time.Sleep on the path of a request and as synchronisation in tests. A sleep that is what it says, such
// as a paced load, carries "// sleep: <reason>" on its line.
func checkSleep(m *module) []finding {
	hot := []string{"frontend/...", "deviceowner/...", "shmring/...", "tables/..."}
	var found []finding
	for _, f := range m.files {
		if f.isGo() && !f.isTest() && !within(f.dir(), hot) {
			continue
		}
		lines := strings.Split(string(f.text), "\n")
		for _, use := range uses(f, "time") {
			line := m.at(use.Pos())
			if use.Sel.Name == "Sleep" && !sleepReason.MatchString(lines[line-1]) {
				found = append(found, finding{f.path, line, `time.Sleep: wait for the event itself (a channel, testutil.Eventually), or say why on the line: "// sleep: <reason>"`})
			}
		}
	}
	return found
}

// messageCall matches functions one of whose first arguments is a text for people: of fmt, errors and slog.
var messageCall = regexp.MustCompile(`^(Errorf|New|Debug|Info|Warn|Error|Log|LogAttrs|DebugContext|InfoContext|WarnContext|ErrorContext)$`)

func checkErrorText(m *module) []finding {
	var found []finding
	for _, f := range m.files {
		if f.syntax == nil {
			continue
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if sel, ok := call.Fun.(*ast.SelectorExpr); !ok || !messageCall.MatchString(sel.Sel.Name) {
				return true
			}
			for _, arg := range call.Args[:min(len(call.Args), 3)] {
				lit, ok := arg.(*ast.BasicLit)
				if ok && lit.Kind == token.STRING && strings.HasPrefix(strings.ToLower(strings.Trim(lit.Value, "\"`")), "failed to") {
					found = append(found, finding{f.path, m.at(lit.Pos()), `message starts with "failed to": write "verb object: cause", with got and want`})
				}
			}
			return true
		})
	}
	return found
}

var globalLogger = regexp.MustCompile(`^(Default|SetDefault|Debug|Info|Warn|Error|Log|LogAttrs)(Context)?$`)

func checkLoggers(m *module) []finding {
	const fix = "take a *slog.Logger in the constructor"
	var found []finding
	for _, f := range m.files {
		if f.isTest() || within(f.dir(), []string{"cmd/..."}) {
			continue
		}
		for _, use := range uses(f, "log/slog") {
			if globalLogger.MatchString(use.Sel.Name) {
				found = append(found, finding{f.path, m.at(use.Pos()), fmt.Sprintf("slog.%s uses the global logger: %s", use.Sel.Name, fix)})
			}
		}
		for pos, target := range f.imports() {
			if target == "log" {
				found = append(found, finding{f.path, m.at(pos), "imports log: " + fix})
			}
		}
	}
	return found
}

var (
	suppression = regexp.MustCompile(`^//\s*(nolint|lint:ignore|lint:file-ignore)`)
	reasoned    = regexp.MustCompile(`^//(nolint(:\S+)? // \S+ \S+|lint:(file-)?ignore \S+ \S+ \S+)`)
)

func checkSuppressions(m *module) []finding {
	var found []finding
	for _, f := range m.files {
		if f.syntax == nil {
			continue
		}
		for _, c := range comments(f) {
			if suppression.MatchString(c.text) && !reasoned.MatchString(c.text) {
				found = append(found, finding{f.path, m.at(c.pos), "suppresses a warning without a reason: add one in words behind the check's name"})
			}
		}
	}
	return found
}
