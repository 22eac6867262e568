package e2e

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"rankd/deviceowner/pjrt/pjrttest"
	"rankd/internal/testutil"
	"rankd/model/demo"
	"rankd/supervisor"
)

// A server loads what "rankd model compile" has stored, compiles the rest, says which is which, and scores right.
func TestServerStartsFromExecutablesInTheBundle(t *testing.T) {
	plugin := pjrttest.CPU(t)
	b, err := demo.CreateTest(t.Context(), demo.TestOptions{Dir: filepath.Join(t.TempDir(), "model")})
	if err != nil {
		t.Fatal(err)
	}
	command := func(args ...string) string {
		t.Helper()
		c := exec.Command(testutil.Binary(t), args...)
		c.Env = environment()
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("rankd %s: %v: %s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	said := command("model", "compile", b.Dir, "--plugin="+plugin, "--device-threads=1", "--buckets=1,16")
	for _, want := range []string{"compiling for pjrt cpu", "batch 1: compiled in ", "batch 16: compiled in ", "stored 2 executables"} {
		if !strings.Contains(said, want) {
			t.Errorf("compile: got %s, want %q", said, want)
		}
	}
	if said := command("model", "check", b.Dir, "--no-run"); !strings.Contains(said, "executables for cpu") || !strings.Contains(said, "batch 1, 16; digests are right") {
		t.Errorf("check: got %s", said)
	}
	seed := seedOf(t)
	s := serve(t, options{model: b.Dir, flags: []string{
		"--executor=pjrt", "--platform=cpu", "--plugin=" + plugin, "--device-threads=1", "--buckets=1,16,256", "--executable-cache=",
	}})
	want := []supervisor.ProgramStatus{{Rows: 1, Source: "bundle"}, {Rows: 16, Source: "bundle"}, {Rows: 256, Source: "compiler"}}
	if st := s.status(); st == nil || !slices.Equal(st.Programs, want) {
		t.Errorf("got status %+v, want programs %v", st, want)
	}
	route(t, s, &load{exam: newExam(t, b, seed, 512, closedForm), callers: 8, seed: seed, rows: mixedRows(32, 256), total: 100})
}
