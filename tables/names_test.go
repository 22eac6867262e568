package tables

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"rankd/model"
)

// constantsOf are the values of model's constants whose names begin with prefix.
func constantsOf(t *testing.T, prefix string) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../model/names.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	ast.Inspect(file, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok && strings.HasPrefix(v.Names[0].Name, prefix) {
			text, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			found = append(found, text)
		}
		return true
	})
	return found
}

func textOf(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A name that is forgotten somewhere would be refused there, or worse, taken for another.
func TestI9NamesOfTheModelAreKnownEverywhere(t *testing.T) {
	_, policyText, _ := strings.Cut(textOf(t, "doc.go"), "// # Policies\n")
	policyText, _, _ = strings.Cut(policyText, "// # ")
	for _, c := range []struct {
		prefix, list  string // of constants; the function that lists them
		all           []string
		known         func(string) bool
		where         string
		field, python string
	}{
		{
			"Policy", "IDPolicies", model.IDPolicies(), func(n string) bool { _, ok := policies[n]; return ok }, "policies",
			"tables[].id_policy", "ID_POLICIES",
		},
		{
			"Combiner", "Combiners", model.Combiners(), func(n string) bool { _, ok := combiners[n]; return ok }, "combiners",
			"tables[].combiner", "COMBINERS",
		},
	} {
		if got := constantsOf(t, c.prefix); len(got) < 3 || !slices.Equal(got, c.all) {
			t.Errorf("model/names.go declares %v, %s lists %v: want the same, in one order", got, c.list, c.all)
		}
		_, row, _ := strings.Cut(textOf(t, "../docs/bundle.md"), "\n| `"+c.field+"` |")
		row, _, _ = strings.Cut(row, "\n")
		python := regexp.MustCompile(`(?m)^` + c.python + ` = \((.*)\)$`).FindStringSubmatch(textOf(t, "../python/rankd_export/spec.py"))
		if python == nil {
			t.Fatalf("python/rankd_export/spec.py: got no %s = (...), want one", c.python)
		}
		for _, name := range c.all {
			if !c.known(name) {
				t.Errorf("tables/set.go: want %q in %s", name, c.where)
			}
			if !strings.Contains(row, "`"+name+"`") {
				t.Errorf("docs/bundle.md: want `%s` in the row of %s", name, c.field)
			}
			if !strings.Contains(python[1], strconv.Quote(name)) {
				t.Errorf("python/rankd_export/spec.py: want %q in %s", name, c.python)
			}
			if c.prefix == "Policy" && !regexp.MustCompile(`(?m)(?:^//|\.) `+name+`\s`).MatchString(policyText) {
				t.Errorf(`tables/doc.go: want a sentence that begins with %q under "# Policies"`, name)
			}
		}
	}
}

func TestI9EveryPolicyHasARule(t *testing.T) {
	const zeros = 64
	for _, name := range model.IDPolicies() {
		table := table{name: "t", base: 128, rows: 4, stride: 64, policy: policies[name]}
		for _, id := range []int64{-1, 4, 1 << 40} {
			address := table.outside(uint64(id), zeros) // panics without a rule
			if inside := address >= 128 && address < 128+4*64; !inside && address != zeros {
				t.Errorf("%s: id %d reads address %d, want a row or the zero row", name, id, address)
			}
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("an unknown policy got an address, want a panic")
		}
	}()
	(&table{rows: 1, policy: 99}).outside(1, zeros)
}

func TestI9AttachRefusesNamesThatItDoesNotKnow(t *testing.T) {
	for _, spoil := range []func(*model.Table){
		func(m *model.Table) { m.IDPolicy = "unknown" }, func(m *model.Table) { m.Combiner = "unknown" },
	} {
		s := newSet(t, []spec{{4, 2, model.CombinerSum, model.PolicyReject}})
		m := &model.Manifest{Tables: []model.Table{{Name: "t", Rows: 4, Dim: 2, Combiner: model.CombinerSum, IDPolicy: model.PolicyReject}}}
		spoil(&m.Tables[0])
		if err := (&Set{layout: s.layout, strides: s.strides}).bind(m); err == nil || !strings.Contains(err.Error(), `"unknown"`) {
			t.Errorf("got %v, want an error that names the policy or the combiner", err)
		}
	}
}
