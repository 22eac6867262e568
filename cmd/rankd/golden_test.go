package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"rankd/internal/testutil"
)

// Commands that run in this process leave the goroutine that waits for signals.
func TestMain(m *testing.M) {
	testutil.Main(m, goleak.IgnoreAnyFunction("os/signal.NotifyContext.func1"))
}

// goldens are the files of one folder of testdata. All of them are written anew by "make golden".
type goldens struct {
	t     *testing.T
	dir   string
	names []string
}

func newGoldens(t *testing.T, folder string) *goldens {
	t.Helper()
	g := &goldens{t: t, dir: filepath.Join("testdata", folder)}
	if rewriting() {
		if err := os.MkdirAll(g.dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return g
}

// compare compares text with the file of a name, or writes the file.
func (g *goldens) compare(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join(g.dir, g.keep(name))
	if rewriting() {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; make golden writes it", err)
	}
	if got != string(want) {
		t.Errorf("%s differs; if this is as it should be: make golden\ngot:\n%s\nwant:\n%s", path, got, want)
	}
}

// keep says that there is to be a file of this name, also where it can't be compared.
func (g *goldens) keep(name string) string {
	name += ".golden"
	g.names = append(g.names, name)
	return name
}

// finish looks for files that belong to nothing any more.
func (g *goldens) finish() {
	g.t.Helper()
	entries, err := os.ReadDir(g.dir)
	if err != nil {
		g.t.Fatal(err)
	}
	for _, e := range entries {
		path := filepath.Join(g.dir, e.Name())
		switch {
		case slices.Contains(g.names, e.Name()):
		case rewriting():
			if err := os.Remove(path); err != nil {
				g.t.Error(err)
			}
		case strings.HasSuffix(e.Name(), ".golden"):
			g.t.Errorf("%s belongs to nothing any more: make golden removes it", path)
		}
	}
}
