//go:build ringsim

package shmring

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

var (
	simSeed   = flag.Uint64("seed", 0, "run this one schedule of the simulation")
	simReplay = flag.String("replay", "", "run this one schedule, as printed by a run that failed")
)

// newScenario derives everything from a seed.
func newScenario(seed uint64) scenario {
	rng := rand.New(rand.NewPCG(seed, 1))
	pick := func(choices ...int) int { return choices[rng.IntN(len(choices))] }
	sc := scenario{
		Seed: seed, Frontends: pick(1, 2, 2, 3), Clients: pick(1, 1, 2, 3), Requests: pick(1, 2, 2, 3), MaxRows: pick(1, 2, 4, 7),
		Writers: pick(1, 2, 2), Slabs: pick(2, 3, 3, 4), Capacity: pick(2, 3, 4, 8), Chunk: pick(1, 2, 3), Depth: pick(1, 2),
		Ahead: rng.IntN(3) == 0, Inline: rng.IntN(4) == 0,
	}
	if sc.Chunk > sc.Capacity {
		sc.Chunk = sc.Capacity
	}
	if rng.IntN(8) == 0 {
		sc.Whole, sc.MaxRows = true, min(sc.MaxRows, sc.Capacity)
	}
	if rng.IntN(16) == 0 {
		sc.Crash = 1 + rng.IntN(3)
	}
	if rng.IntN(2) == 0 {
		sc.Ranked = pick(0, 1, 2, 3, 5, 8) + 1
	} else {
		sc.Walk = []float64{0.01, 0.03, 0.1, 0.4}[rng.IntN(4)]
	}
	for range pick(0, 1, 1, 2, 3) {
		f := plannedFault{Role: rng.IntN(sc.Frontends+1) - 1, Kind: "kill"}
		f.Step = 1 + rng.IntN(pick(60, 200, 600))
		switch rng.IntN(12) {
		case 0:
			f.Kind = "stop"
		case 1:
			f.Kind = "freeze"
		case 2:
			f.Kind = "pause"
		}
		sc.Faults = append(sc.Faults, f)
	}
	return sc
}

func (sc *scenario) strategy(salt uint64) strategy {
	rng := rand.New(rand.NewPCG(sc.Seed, 2+salt))
	if sc.Ranked > 0 {
		return newRanked(rng, sc.Ranked-1, 2000)
	}
	return &walk{rng: rng, p: sc.Walk}
}

// simulate runs one schedule. mem is used again if it is large enough.
func simulate(sc scenario, mem []byte, plan strategy) *simWorld {
	sc.Faults = append([]plannedFault(nil), sc.Faults...)
	w := newSimWorld(sc, mem, plan)
	w.run()
	return w
}

// simMemory holds the largest geometry of newScenario.
func simMemory() []byte {
	sc := scenario{Frontends: 3, Writers: 2, Slabs: 4, Capacity: 8, Chunk: 1}
	return HeapMemory(sc.geometry().Bytes())
}

// schedules is the number of random schedules to run: a short set by default, many if RANKD_SIM_SCHEDULES says so.
func schedules(t *testing.T, short int) int {
	text := os.Getenv("RANKD_SIM_SCHEDULES")
	if text == "" {
		return short
	}
	n, err := strconv.Atoi(strings.ReplaceAll(text, "_", ""))
	if err != nil || n < 1 {
		t.Fatalf("RANKD_SIM_SCHEDULES: got %q, want a number above 0", text)
	}
	return n
}

// TestSimulation runs random schedules with kills, restarts and stops over the real code, and checks each.
func TestSimulation(t *testing.T) {
	switch {
	case *simReplay != "":
		replayPrinted(t, *simReplay)
		return
	case *simSeed != 0:
		runSeed(t, *simSeed, simMemory())
		return
	}
	n := schedules(t, 20_000)
	if n > 100_000 && !isWorker() {
		runWorkers(t, "^TestSimulation$")
		return
	}
	part, of := worker()
	began, said := time.Now(), time.Now()
	mem := simMemory()
	sum := result{Name: "random schedules"}
	for seed := uint64(1 + part); seed <= uint64(n); seed += uint64(of) {
		sum.add(runSeed(t, seed, mem))
		if t.Failed() {
			return
		}
		if time.Since(said) > 10*time.Second {
			said = time.Now()
			fmt.Printf("worker %d of %d: seed %d of %d, %.0f schedules/s\n", part+1, of, seed, n, float64(sum.Schedules)/time.Since(began).Seconds())
		}
	}
	sum.Seconds = time.Since(began).Seconds()
	report(t, sum)
}

func runSeed(t *testing.T, seed uint64, mem []byte) *simWorld {
	sc := newScenario(seed)
	w := simulate(sc, mem, sc.strategy(0))
	if w.sim.failure != "" {
		t.Errorf("seed %d: %s\nscenario %+v\nrun it again with: go test -tags ringsim -run 'TestSimulation$' ./shmring -seed %d\n%s",
			seed, w.sim.failure, sc, seed, reduce(sc, w.sim.record, mem))
	}
	return w
}

// printed is a schedule that stands for itself.
type printed struct {
	Scenario   scenario
	Deviations []deviation
}

func replayPrinted(t *testing.T, text string) {
	var p printed
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		t.Fatalf("read -replay: %v", err)
	}
	w, trace := follow(p.Scenario, p.Deviations, nil, true)
	t.Log("\n" + strings.Join(trace, "\n"))
	if w.sim.failure != "" {
		t.Error(w.sim.failure)
	}
}

// follow runs a recorded schedule.
func follow(sc scenario, list []deviation, mem []byte, traced bool) (*simWorld, []string) {
	sc.Faults = nil // they are among the deviations
	plan := &replay{todo: append([]deviation(nil), list...)}
	w := newSimWorld(sc, mem, plan)
	plan.find = w.processOf
	var trace []string
	if traced {
		w.sim.trace = &trace
	}
	w.run()
	return w, trace
}

// TestRecordRepeatsTheRun holds what replaying and reducing rely on: a scenario and its deviations determine every byte.
func TestRecordRepeatsTheRun(t *testing.T) {
	for seed := uint64(1); seed <= 300; seed++ {
		sc := newScenario(seed)
		first := simulate(sc, nil, sc.strategy(0))
		again, _ := follow(sc, first.sim.record, nil, false)
		if first.sim.step != again.sim.step || !bytes.Equal(first.mem, again.mem) {
			t.Fatalf("seed %d: %d steps, then %d, or other bytes in the region", seed, first.sim.step, again.sim.step)
		}
	}
}

// TestSimulatedCodeDefersNothing holds what the simulator's killing relies on: a coroutine is unwound by a panic, and code
// that a real kill would never run must not run then either.
func TestSimulatedCodeDefersNothing(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	looked := 0
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") || file == "attach.go" { // mapping a file is not simulated
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		looked++
		for i, line := range strings.Split(string(text), "\n") {
			if strings.HasPrefix(strings.TrimSpace(line), "defer ") || strings.Contains(line, "recover()") {
				t.Errorf("%s:%d: %s: a simulated kill would run it", file, i+1, strings.TrimSpace(line))
			}
		}
	}
	if looked < 15 {
		t.Fatalf("looked at %d files, want all of the package", looked)
	}
}
