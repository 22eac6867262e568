package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"rankd/deviceowner/pjrt/execache"
	"rankd/frontend"
	"rankd/internal/config"
	"rankd/model"
)

// The pages in docs/ say what the code does; what they list is compared with the code here.

const root = "../.."

func init() {
	if flag.Lookup("rewrite") == nil { // datadriven, where a test imports it, has one too
		flag.Bool("rewrite", false, "write golden files anew")
	}
}

func rewriting() bool { return flag.Lookup("rewrite").Value.String() == "true" }

func page(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// flagTables are the generated parts of the page on configuration.
func flagTables() map[string]string {
	tables := map[string]string{}
	for _, s := range newServeConfig().sections() {
		tables[strings.ToLower(s.Title)] = config.Table(s.Config)
	}
	inspect := newInspect()
	for name, flags := range map[string]*pflag.FlagSet{
		"inspect":           inspect.PersistentFlags(),
		"model create-demo": newCreateDemo().Flags(),
		"model check":       newModelCheck().Flags(),
		"model compile":     newModelCompile().Flags(),
		"model quantize":    newQuantize().Flags(),
		"predict":           newPredict().Flags(),
		"doctor":            newDoctor().Flags(),
		"config print":      newConfigPrint().Flags(),
	} {
		tables[name] = toolTable(flags)
	}
	return tables
}

// toolTable lists the flags of a tool; bounds stand in their help.
func toolTable(flags *pflag.FlagSet) string {
	var b strings.Builder
	b.WriteString("| flag | default | meaning |\n|---|---|---|\n")
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		value := f.DefValue
		if value != "" {
			value = "`" + value + "`"
		}
		fmt.Fprintf(&b, "| `--%s` | %s | %s |\n", f.Name, value, strings.ReplaceAll(f.Usage, "|", `\|`))
	})
	return b.String()
}

const configurationPage = "docs/configuration.md"

func TestConfigurationPageHasTheFlagsOfTheCode(t *testing.T) {
	old := page(t, configurationPage)
	text := old
	for _, name := range slices.Sorted(maps.Keys(flagTables())) {
		begin, end := "<!-- flags: "+name+" (generated) -->\n\n", "<!-- end -->\n"
		i := strings.Index(text, begin)
		if i < 0 {
			t.Errorf("%s: no place for the flags of %q, want a line %q", configurationPage, name, strings.TrimSpace(begin))
			continue
		}
		before, after := text[:i+len(begin)], text[i+len(begin):]
		j := strings.Index(after, end)
		if j < 0 {
			t.Fatalf("%s: the flags of %q have no end, want a line %q", configurationPage, name, strings.TrimSpace(end))
		}
		text = before + flagTables()[name] + "\n" + after[j:]
	}
	if text == old {
		return
	}
	if !rewriting() {
		t.Fatalf("%s differs from the flags of the code: go test ./cmd/rankd -run TestConfigurationPage -rewrite", configurationPage)
	}
	if err := os.WriteFile(filepath.Join(root, configurationPage), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestConfigurationPageNamesEveryFlagOfServe(t *testing.T) {
	text := page(t, configurationPage)
	newServe().Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && f.Name != "help" && strings.Count(text, "| `--"+f.Name+"` | `"+config.EnvName(f.Name)+"` |") != 1 {
			t.Errorf("flag --%s: want one row of a table in %s", f.Name, configurationPage)
		}
	})
}

// pages are all pages with links in them.
func pages(t *testing.T) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil || len(names) < 5 {
		t.Fatalf("find pages: got %v, %v", names, err)
	}
	performance, err := filepath.Glob(filepath.Join(root, "docs", "performance", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	names = append(names, performance...)
	for _, more := range []string{"README.md", "CONTRIBUTING.md", "python/README.md", "deploy/plugins/README.md", "bench/README.md"} {
		if _, err := os.Stat(filepath.Join(root, more)); err == nil {
			names = append(names, filepath.Join(root, more))
		}
	}
	return names
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	fence   = regexp.MustCompile("(?s)```.*?```")
	noAnch  = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// anchors are the names that a page's headings can be linked by.
func anchors(text string) map[string]bool {
	found := map[string]bool{}
	for _, h := range heading.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		found[strings.ReplaceAll(noAnch.ReplaceAllString(strings.ToLower(h[1]), ""), " ", "-")] = true
	}
	return found
}

func TestLinksOfThePagesLeadSomewhere(t *testing.T) {
	for _, name := range pages(t) {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(fence.ReplaceAllString(string(text), ""), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			path, anchor, _ := strings.Cut(m[1], "#")
			target := name
			if path != "" {
				target = filepath.Join(filepath.Dir(name), path)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %q: %v", name, m[1], err)
				continue
			}
			if anchor == "" {
				continue
			}
			if there, err := os.ReadFile(target); err != nil || !anchors(string(there))[anchor] {
				t.Errorf("%s links to %q: that page has no such heading (%v)", name, m[1], err)
			}
		}
	}
}

func TestBundlePageNamesEveryField(t *testing.T) {
	text := page(t, "docs/bundle.md")
	for _, field := range jsonFields("", reflect.TypeFor[model.Manifest]()) {
		if !strings.Contains(text, "| `"+field+"` |") {
			t.Errorf("docs/bundle.md: want a row of a table for `%s`", field)
		}
	}
}

// jsonFields lists the paths of all leaves of a JSON value, such as "tables[].slot.offset".
func jsonFields(path string, t reflect.Type) []string {
	switch {
	case t.Kind() == reflect.Slice:
		return jsonFields(path+"[]", t.Elem())
	case t.Kind() != reflect.Struct:
		return []string{path}
	}
	var all []string
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if path != "" {
			name = path + "." + name
		}
		all = append(all, jsonFields(name, t.Field(i).Type)...)
	}
	return all
}

func TestBundlePageExampleIsAManifest(t *testing.T) {
	_, after, ok := strings.Cut(page(t, "docs/bundle.md"), "```json\n")
	text, _, closed := strings.Cut(after, "```")
	if !ok || !closed {
		t.Fatal("docs/bundle.md: got no JSON block, want the example's manifest")
	}
	var raw map[string]any
	if err := json.Unmarshal([]byte(text), &raw); err != nil {
		t.Fatalf("read example: %v", err)
	}
	digests := map[string]string{} // the script of the page fills them in
	for _, m := range regexp.MustCompile(`"([\w/.]+\.(?:safetensors|mlir))"`).FindAllStringSubmatch(text, -1) {
		digests[m[1]] = "sha256:" + strings.Repeat("0", 64)
	}
	raw["digests"] = digests
	whole, err := json.Marshal(raw)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := model.DecodeManifest(whole); err != nil {
		t.Error(err)
	}
}

func TestAPIPageNamesEveryReason(t *testing.T) {
	text := page(t, "docs/api.md")
	reasons := frontend.Reasons()
	for _, m := range regexp.MustCompile(`= "(invalid_\w+)"`).FindAllStringSubmatch(page(t, "frontend/wire/errors.go"), -1) {
		reasons = append(reasons, m[1])
	}
	if len(reasons) < 20 {
		t.Fatalf("got %d reasons, want those of the frontend and of the decoders", len(reasons))
	}
	for _, r := range reasons {
		if !strings.Contains(text, "| `"+r+"` |") {
			t.Errorf("docs/api.md: want a row of the table of refusals for `%s`", r)
		}
	}
}

func TestOperationsPageNamesExactlyTheMetrics(t *testing.T) {
	exported := map[string]bool{}
	for file, pattern := range map[string]string{
		"internal/stats/collector.go": `desc\("(\w+)"`,
		"supervisor/metrics.go":       `(?:gauge|byNode|perProcess|labelled)\("(\w+)"`,
	} {
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(page(t, file), -1) {
			exported["rankd_"+m[1]] = true
		}
	}
	named := map[string]bool{}
	for _, m := range regexp.MustCompile("`(rankd_\\w+)(?:\\{[^}]*\\})?`").FindAllStringSubmatch(page(t, "docs/operations.md"), -1) {
		named[m[1]] = true
	}
	for name := range exported {
		if !named[name] {
			t.Errorf("docs/operations.md: want metric `%s` in the table", name)
		}
	}
	for name := range named {
		if !exported[name] {
			t.Errorf("docs/operations.md names metric `%s`, which is not exported", name)
		}
	}
}

// provedBy matches a test file and the tests of it that a page cites.
var (
	provedBy  = regexp.MustCompile("`([\\w/]+(?:_test\\.go|/test_\\w+\\.py))`:?((?:,? `[Tt]est\\w+`|,? `Fuzz\\w+`)+)")
	testNames = regexp.MustCompile("`([Tt]est\\w+|Fuzz\\w+)`")
)

func TestPagesCiteTestsThatExist(t *testing.T) {
	cited := 0
	for _, name := range pages(t) {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all := len(testNames.FindAllString(string(text), -1))
		for _, m := range provedBy.FindAllStringSubmatch(string(text), -1) {
			source, err := os.ReadFile(filepath.Join(root, m[1]))
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			for _, n := range testNames.FindAllStringSubmatch(m[2], -1) {
				all--
				cited++
				if !regexp.MustCompile(`(?m)^(?:func|def) ` + n[1] + `\(`).Match(source) {
					t.Errorf("%s cites %s of %s, which is not there", name, n[1], m[1])
				}
			}
		}
		if all != 0 {
			t.Errorf("%s: %d tests are named without their file before them: write `file_test.go` `TestName`", name, all)
		}
	}
	if cited < 30 {
		t.Errorf("got %d citations, want at least those of docs/faults.md", cited)
	}
}

// Commands that pages show must exist.
func TestPagesShowCommandsThatExist(t *testing.T) {
	command := regexp.MustCompile(`(?m)^\s*(?:\$ )?(?:\.build/bin/)?rankd ([a-z]+)(?: ([a-z-]+))?`)
	for _, name := range pages(t) {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range fence.FindAllString(string(text), -1) {
			for _, m := range command.FindAllStringSubmatch(block, -1) {
				found, _, err := newRoot().Find(slices.DeleteFunc([]string{m[1], m[2]}, func(s string) bool { return s == "" || s == "--" }))
				if err != nil || !found.HasParent() || found.HasSubCommands() && m[2] == "" {
					t.Errorf("%s shows %q, which is no command of rankd", name, strings.TrimSpace(m[0]))
				}
				checkFlags(t, name, found, block)
			}
		}
	}
}

// checkFlags looks for the flags of one-command blocks.
func checkFlags(t *testing.T, name string, cmd *cobra.Command, block string) {
	if strings.Count(block, "rankd ") != 1 {
		return
	}
	for _, m := range regexp.MustCompile(`\s--([a-z][a-z-]+)`).FindAllStringSubmatch(block, -1) {
		if cmd.Flag(m[1]) == nil {
			t.Errorf("%s shows flag --%s of %q, which does not exist", name, m[1], cmd.CommandPath())
		}
	}
}

func TestContributingNamesEveryMakeTargetAndLintRule(t *testing.T) {
	text := page(t, "CONTRIBUTING.md")
	for file, c := range map[string]struct{ pattern, row string }{
		"Makefile":               {`(?m)^([a-z0-9-]+):.*## `, "`make %s`"},
		"internal/lint/rules.go": {`\{"([a-z-]+)", check`, "| `%s` |"},
	} {
		found := regexp.MustCompile(c.pattern).FindAllStringSubmatch(page(t, file), -1)
		if len(found) < 10 {
			t.Errorf("%s: got %d names, want all of them", file, len(found))
		}
		for _, m := range found {
			if want := fmt.Sprintf(c.row, m[1]); m[1] != "help" && !strings.Contains(text, want) {
				t.Errorf("CONTRIBUTING.md: want %s, from %s", want, file)
			}
		}
	}
}

func TestBundlePageNamesEveryFieldOfTheListOfExecutables(t *testing.T) {
	text := page(t, "docs/bundle.md")
	for _, field := range append(jsonFields("executables[]", reflect.TypeFor[execache.Item]()), jsonFields("", reflect.TypeFor[execache.Key]())...) {
		if !strings.HasPrefix(field, "executables[].key.") && !strings.Contains(text, "| `"+field+"` |") {
			t.Errorf("docs/bundle.md: want a row of a table for `%s`", field)
		}
	}
}
