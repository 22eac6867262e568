//go:build ringsim

package shmring

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
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
		switch rng.IntN(8) {
		case 0:
			f.Kind = "stop"
		case 1:
			f.Kind = "freeze"
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
	began := time.Now()
	mem := simMemory()
	var sum tally
	for seed := uint64(1); seed <= uint64(n); seed++ {
		sum.add(runSeed(t, seed, mem))
		if t.Failed() {
			return
		}
	}
	t.Logf("%s in %.1f s", sum.String(), time.Since(began).Seconds())
}

// tally counts what the schedules did, so that a simulation that does nothing is seen.
type tally struct {
	schedules, steps, kills, stops, requests, restarts int
}

func (s *tally) add(w *simWorld) {
	s.schedules++
	s.steps += w.sim.step
	s.requests += len(w.requests)
	for _, d := range w.sim.record {
		switch d.Kind {
		case "kill":
			s.kills++
		case "stop", "freeze":
			s.stops++
		}
	}
}

func (s *tally) String() string {
	return fmt.Sprintf("%d schedules, %d steps, %d requests, %d kills, %d stops", s.schedules, s.steps, s.requests, s.kills, s.stops)
}

func runSeed(t *testing.T, seed uint64, mem []byte) *simWorld {
	sc := newScenario(seed)
	w := simulate(sc, mem, sc.strategy(0))
	if w.sim.failure != "" {
		t.Errorf("seed %d: %s\nscenario %+v\nrun it again with: go test -tags ringsim -run 'TestSimulation$' ./shmring -seed %d\n%s",
			seed, w.sim.failure, sc, seed, reduce(sc, w.sim.record, w.sim.failure, mem))
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

func reduce(sc scenario, list []deviation, failure string, mem []byte) string {
	w, trace := follow(sc, list, mem, true)
	return fmt.Sprintf("replay: %s\n%s", w.sim.failure, strings.Join(trace, "\n"))
}
