//go:build ringsim

package shmring

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
)

// mutant is the deliberate bug that is active. Only the copy of the package that TestMutantsAreFound builds looks at it.
var mutant string

// lateRegistrations is what one of the mutants needs to remember.
var lateRegistrations = map[*writer]func(){}

// edit is a piece of a file that a mutant replaces.
type edit struct {
	mutant, file, old, new string
	raw                    bool
}

func readMutants(t *testing.T) (names []string, edits []edit) {
	text, err := os.ReadFile("testdata/mutants.txt")
	if err != nil {
		t.Fatal(err)
	}
	var name string
	for block := range strings.SplitSeq(string(text), "\n== ") {
		head, rest, _ := strings.Cut(block, "\n")
		if name, _, _ = strings.Cut(head, ":"); strings.HasPrefix(head, "#") {
			continue
		}
		names = append(names, name)
		for _, part := range strings.Split("\n"+rest, "\n@ ")[1:] {
			file, body, _ := strings.Cut(part, "\n")
			e := edit{mutant: name, file: file}
			var ok bool
			if e.old, e.new, ok = strings.Cut(body, "\n--raw\n"); ok {
				e.raw = true
			} else if e.old, e.new, ok = strings.Cut(body+"\n", "\n--\n"); !ok {
				t.Fatalf("mutant %s: no -- line in\n%s", name, body)
			}
			edits = append(edits, e)
		}
	}
	return names, edits
}

// mutate puts the edits of one file into its text, each behind a condition on mutant.
func mutate(t *testing.T, file, text string, edits []edit) string {
	type span struct{ from, to int }
	variants := map[span][]edit{}
	var spans []span
	for _, e := range edits {
		from := strings.Index(text, e.old)
		if from < 0 || strings.Count(text, e.old) != 1 {
			t.Fatalf("mutant %s: its text occurs %d times in %s, want once:\n%s", e.mutant, strings.Count(text, e.old), file, e.old)
		}
		s := span{from, from + len(e.old)}
		if variants[s] == nil {
			spans = append(spans, s)
		}
		variants[s] = append(variants[s], e)
	}
	slices.SortFunc(spans, func(a, b span) int { return a.from - b.from })
	var out strings.Builder
	at := 0
	for _, s := range spans {
		if s.from < at {
			t.Fatalf("mutant %s: its text in %s overlaps another's; use the same lines for both", variants[s][0].mutant, file)
		}
		out.WriteString(text[at:s.from])
		if variants[s][0].raw {
			out.WriteString(variants[s][0].new)
		} else {
			for _, e := range variants[s] {
				fmt.Fprintf(&out, "if mutant == %q {\n%s\n} else ", e.mutant, strings.TrimSuffix(e.new, "\n"))
			}
			fmt.Fprintf(&out, "{\n%s\n}\n", strings.TrimSuffix(text[s.from:s.to], "\n"))
		}
		at = s.to
	}
	out.WriteString(text[at:])
	return out.String()
}

// TestMutantsAreFound builds the package with all mutants in it and lets the simulation hunt each.
func TestMutantsAreFound(t *testing.T) {
	if os.Getenv("RANKD_SIM_HUNT") != "" {
		t.Skip("this is the hunt itself")
	}
	names, edits := readMutants(t)
	dir := t.TempDir()
	byFile := map[string][]edit{}
	for _, e := range edits {
		byFile[e.file] = append(byFile[e.file], e)
	}
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	here, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	for file, edits := range byFile {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		copied := filepath.Join(dir, file)
		if err := os.WriteFile(copied, []byte(mutate(t, file, string(text), edits)), 0o600); err != nil {
			t.Fatal(err)
		}
		overlay.Replace[filepath.Join(here, file)] = copied
	}
	list, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	listFile, binary := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "hunt")
	if err := os.WriteFile(listFile, list, 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "test", "-c", "-tags", "ringsim", "-vet=off", "-overlay", listFile, "-o", binary, ".")
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the mutants: %v\n%s", err, said)
	}
	workers := runtime.NumCPU()
	said := make([]string, workers)
	var group sync.WaitGroup
	for k := range workers {
		group.Go(func() {
			var mine []string
			for i := k; i < len(names); i += workers {
				mine = append(mine, names[i])
			}
			hunt := exec.Command(binary, "-test.run", "^TestHunt$", "-test.v")
			hunt.Env = append(os.Environ(), "RANKD_SIM_HUNT="+strings.Join(mine, ","))
			out, err := hunt.CombinedOutput()
			said[k] = string(out)
			if err != nil {
				t.Errorf("hunt: %v\n%s", err, out)
			}
		})
	}
	group.Wait()
	found := 0
	for _, text := range said {
		for line := range strings.SplitSeq(text, "\n") {
			if strings.Contains(line, "found ") {
				found++
				t.Log(strings.TrimSpace(line))
			}
		}
	}
	if found != len(names) {
		t.Errorf("found %d of %d mutants", found, len(names))
	}
}

// huntLimit is the number of schedules within which a mutant must be found.
const huntLimit = 100_000

// TestHunt looks for the mutants that RANKD_SIM_HUNT names; it makes sense only in the build of TestMutantsAreFound.
func TestHunt(t *testing.T) {
	list := os.Getenv("RANKD_SIM_HUNT")
	if list == "" {
		t.Skip("needs the build of TestMutantsAreFound")
	}
	mem := simMemory()
	for name := range strings.SplitSeq(list, ",") {
		mutant = name
		seed, failure := uint64(0), ""
		for failure == "" && seed < huntLimit {
			seed++
			clear(lateRegistrations)
			sc := newScenario(seed)
			failure = simulate(sc, mem, sc.strategy(0)).sim.failure
		}
		failure, _, _ = strings.Cut(failure, "\n")
		if failure == "" {
			t.Errorf("mutant %s is not found in %d schedules: the simulation is too weak", name, huntLimit)
			continue
		}
		t.Logf("found %-26s by seed %5d: %s", name, seed, failure)
	}
}
