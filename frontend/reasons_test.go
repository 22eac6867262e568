package frontend

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc/codes"

	"rankd/internal/stats"
)

// sourceOf parses the files of a package, without its tests.
func sourceOf(t *testing.T, dir string) map[string]*ast.File {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]*ast.File{}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		if files[name], err = parser.ParseFile(token.NewFileSet(), name, nil, 0); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// reasonsIn are the constants of a package whose names begin with Reason, by name.
func reasonsIn(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, f := range sourceOf(t, dir) {
		for _, d := range f.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.CONST {
				continue
			}
			for _, spec := range g.Specs {
				v := spec.(*ast.ValueSpec)
				for i, name := range v.Names {
					if !strings.HasPrefix(name.Name, "Reason") {
						continue
					}
					text, err := strconv.Unquote(v.Values[i].(*ast.BasicLit).Value)
					if err != nil {
						t.Fatal(err)
					}
					found[name.Name] = text
				}
			}
		}
	}
	return found
}

func TestEveryReasonHasARowAndIsUsed(t *testing.T) {
	own := reasonsIn(t, ".")
	if len(own) < 10 {
		t.Fatalf("found %d reasons in the source, want all", len(own))
	}
	rows := map[string]int{}
	for _, r := range refusals {
		rows[r.reason]++
		if r.code == codes.OK {
			t.Errorf("reason %q: its row of refusals in reasons.go has no code", r.reason)
		}
		if r.outcome == stats.OutcomeOK {
			t.Errorf("reason %q: its row of refusals in reasons.go has no outcome, so refusals would count as ok", r.reason)
		}
	}
	used := map[string]bool{}
	for name, f := range sourceOf(t, ".") {
		if strings.HasSuffix(name, "reasons.go") {
			continue
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok {
				used[id.Name] = true
			}
			return true
		})
	}
	for name, reason := range own {
		if rows[reason] != 1 {
			t.Errorf("%s has %d rows of refusals in reasons.go, want 1", name, rows[reason])
		}
		if !used[name] {
			t.Errorf("%s: no error is made with it outside reasons.go", name)
		}
	}
	for name, reason := range reasonsIn(t, "wire") {
		if !strings.HasPrefix(reason, "invalid_") && rows[reason] != 1 {
			t.Errorf("wire.%s is %q: want a reason that begins with invalid_, or a row of refusals in reasons.go", name, reason)
		}
	}
}

func TestEveryErrorIsMadeByRefuse(t *testing.T) {
	for name, f := range sourceOf(t, ".") {
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Name.Name == "refuse" {
				continue
			}
			ast.Inspect(d, func(n ast.Node) bool {
				if lit, ok := n.(*ast.CompositeLit); ok {
					if id, ok := lit.Type.(*ast.Ident); ok && id.Name == "Error" {
						t.Errorf("%s makes an Error itself: call refuse, which takes code and retry from the reason", name)
					}
				}
				return true
			})
		}
	}
}

func TestPageSaysWhatFollowsFromEachReason(t *testing.T) {
	const page = "docs/api.md"
	text, err := os.ReadFile("../" + page)
	if err != nil {
		t.Fatal(err)
	}
	all := Reasons()
	for _, reason := range reasonsIn(t, "wire") {
		if !slices.Contains(all, reason) {
			all = append(all, reason)
		}
	}
	for _, reason := range all {
		r := refusalOf(reason)
		retry := ""
		switch {
		case r.retry%1e9 != 0:
			retry = fmt.Sprintf("%d ms", r.retry.Milliseconds())
		case r.retry != 0:
			retry = fmt.Sprintf("%d s", r.retry/1e9)
		}
		_, after, found := strings.Cut(string(text), "\n| `"+reason+"` |")
		line, _, _ := strings.Cut(after, "\n")
		cells := strings.Split(line, "|")
		if !found || len(cells) != 5 {
			t.Errorf("%s: want a row for %q with 5 cells", page, reason)
			continue
		}
		if got, want := strings.TrimSpace(cells[0]), code.Code(r.code).String(); got != want {
			t.Errorf("%s says that %q has the code %s, reasons.go %s", page, reason, got, want)
		}
		if got := strings.TrimSpace(cells[3]); got != retry {
			t.Errorf("%s says that %q is retried after %q, reasons.go %q", page, reason, got, retry)
		}
	}
}
