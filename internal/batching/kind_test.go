package batching

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"testing"

	"rankd/internal/testutil"
)

func TestMain(m *testing.M) { testutil.Main(m) }

// constants are the policies that kind.go declares, which the compiler does not list.
func constants(t *testing.T) []Kind {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "kind.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var found []Kind
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if id, ok := spec.Type.(*ast.Ident); ok && id.Name == "Kind" {
			text, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			found = append(found, Kind(text))
		}
		return true
	})
	return found
}

func TestI1EveryPolicyIsInTheTable(t *testing.T) {
	all := All()
	declared := constants(t)
	if len(declared) < 4 || !slices.Equal(declared, all) {
		t.Errorf("kind.go declares %v, its table has %v: want the same, in one order", declared, all)
	}
	for _, k := range all {
		if !k.Known() {
			t.Errorf("%s is not known", k)
		}
	}
}

func TestI1UnknownPolicyPanics(t *testing.T) {
	for name, f := range map[string]func(Kind) bool{"Alone": Kind.Alone, "Timed": Kind.Timed} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s of an unknown policy: got an answer, want a panic", name)
				}
			}()
			f("unknown")
		}()
	}
	if Kind("unknown").Known() {
		t.Error("an unknown policy is known")
	}
}
