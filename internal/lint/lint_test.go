package lint

import (
	"fmt"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

func moduleRoot(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Dir(strings.TrimSpace(string(out)))
}

func TestModule(t *testing.T) {
	m, err := load(moduleRoot(t))
	if err != nil {
		t.Fatal(err)
	}
	if len(m.packages()) < 5 {
		t.Fatalf("got %d packages, want the whole module", len(m.packages()))
	}
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			for _, f := range sorted(r.check(m)) {
				t.Error(f)
			}
		})
	}
}

func TestTools(t *testing.T) {
	if testing.Short() {
		t.Skip("the tools read the whole module: run without -short")
	}
	root := moduleRoot(t)
	for _, tool := range tools {
		t.Run(tool.name, func(t *testing.T) {
			said, err := tool.complaints(root)
			if err != nil {
				t.Fatal(err)
			}
			if said != "" {
				t.Error(said)
			}
		})
	}
}

func sorted(found []finding) []string {
	lines := make([]string, 0, len(found))
	for _, f := range found {
		lines = append(lines, f.String())
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}

// example reads files written one after the other, each below a line "-- path --".
func example(text string) *module {
	m := &module{fset: token.NewFileSet()}
	name, body := "", ""
	flush := func() {
		if name != "" {
			m.add(name, []byte(body))
		}
		body = ""
	}
	for _, l := range strings.SplitAfter(text, "\n") {
		if rest, ok := strings.CutPrefix(l, "-- "); ok {
			flush()
			name = strings.TrimSuffix(strings.TrimSpace(rest), " --")
			continue
		}
		if count := ""; strings.HasPrefix(l, "REPEAT ") {
			_, _ = fmt.Sscan(l[7:], &count)
			var n int
			_, _ = fmt.Sscan(count, &n)
			l = strings.Repeat("// filler\n", n)
		}
		body += l
	}
	flush()
	return m
}

func TestI1EveryRuleRefusesItsBadExampleAndAcceptsTheGoodOne(t *testing.T) {
	refused, accepted := map[string]bool{}, map[string]bool{}
	datadriven.RunTest(t, "testdata/rules.td", func(t *testing.T, d *datadriven.TestData) string {
		i := slices.IndexFunc(rules, func(r rule) bool { return r.name == d.Cmd })
		if i < 0 {
			d.Fatalf(t, "no rule is named %q", d.Cmd)
		}
		found := sorted(rules[i].check(example(d.Input)))
		if len(found) == 0 {
			accepted[d.Cmd] = true
			return "ok\n"
		}
		refused[d.Cmd] = true
		return strings.Join(found, "\n") + "\n"
	})
	for _, r := range rules {
		if !refused[r.name] || !accepted[r.name] {
			t.Errorf("rule %s: got refused %v accepted %v, want an example of each", r.name, refused[r.name], accepted[r.name])
		}
	}
}

func TestI1EveryToolComplainsAboutItsBadExample(t *testing.T) {
	bad := map[string]string{
		"gofumpt":     "package bad\n\nvar  x = 1\n",
		"vet":         "package bad\n\nimport \"fmt\"\n\nfunc f() { fmt.Printf(\"%d\\n\", \"x\") }\n",
		"staticcheck": "package bad\n\nfunc unused() {}\n",
	}
	root := moduleRoot(t)
	for _, tool := range tools {
		t.Run(tool.name, func(t *testing.T) {
			// A directory of the module, since the tools are pinned in its go.mod; the underscore hides it from "./...".
			dir, err := os.MkdirTemp(filepath.Join(root, "internal", "lint", "testdata"), "_bad-")
			if err != nil {
				t.Fatal(err)
			}
			defer os.RemoveAll(dir)
			if err := os.WriteFile(filepath.Join(dir, "bad.go"), []byte(bad[tool.name]), 0o600); err != nil {
				t.Fatal(err)
			}
			one := tool
			one.args = slices.Clone(tool.args)
			one.args[len(one.args)-1] = "bad.go"
			said, err := one.complaints(dir)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(said, "bad.go") || !strings.Contains(said, tool.fix) {
				t.Errorf("got %q, want a complaint about bad.go and the fix", said)
			}
		})
	}
}
