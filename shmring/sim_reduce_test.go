//go:build ringsim

package shmring

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// reduce makes a failing schedule smaller: first the scenario, as long as some schedule of the smaller one fails as well,
// then the list of deviations. It returns what is left in words.
func reduce(sc scenario, list []deviation, mem []byte) string {
	deadline := time.Now().Add(20 * time.Second)
	for again := true; again && time.Now().Before(deadline); {
		again = false
		for _, smaller := range smallerScenarios(sc) {
			if found, deviations := search(smaller, mem, deadline); deviations != nil {
				sc, list, again = found, deviations, true
				break
			}
		}
	}
	return present(sc, thin(sc, list, mem), mem)
}

// smallerScenarios are the scenarios one step below.
func smallerScenarios(sc scenario) (all []scenario) {
	add := func(change func(*scenario)) {
		c := sc
		c.Faults = slices.Clone(sc.Faults)
		change(&c)
		all = append(all, c)
	}
	for i := range sc.Faults {
		add(func(c *scenario) { c.Faults = slices.Delete(c.Faults, i, i+1) })
	}
	if n := sc.Frontends - 1; n > 0 {
		add(func(c *scenario) {
			c.Frontends = n
			c.Faults = slices.DeleteFunc(c.Faults, func(f plannedFault) bool { return f.Role >= n })
		})
	}
	for _, field := range []func(*scenario) *int{
		func(c *scenario) *int { return &c.Clients }, func(c *scenario) *int { return &c.Requests },
		func(c *scenario) *int { return &c.MaxRows }, func(c *scenario) *int { return &c.Writers }, func(c *scenario) *int { return &c.Depth },
	} {
		if *field(&sc) > 1 {
			add(func(c *scenario) { *field(c)-- })
		}
	}
	if sc.Crash > 0 {
		add(func(c *scenario) { c.Crash = 0 })
	}
	if sc.Ahead {
		add(func(c *scenario) { c.Ahead = false })
	}
	if !sc.Inline {
		add(func(c *scenario) { c.Inline = true })
	}
	if sc.Slabs > 2 {
		add(func(c *scenario) { c.Slabs-- })
	}
	return all
}

// search looks for a failing schedule of a scenario, with the faults a little earlier or later.
func search(sc scenario, mem []byte, deadline time.Time) (scenario, []deviation) {
	rng := rand.New(rand.NewPCG(sc.Seed, 3))
	for salt := range uint64(500) {
		if time.Now().After(deadline) {
			break
		}
		c := sc
		c.Faults = slices.Clone(sc.Faults)
		if salt > 20 {
			for i := range c.Faults {
				c.Faults[i].Step = 1 + rng.IntN(2*c.Faults[i].Step)
			}
		}
		if w := simulate(c, mem, c.strategy(salt)); w.sim.failure != "" {
			return c, w.sim.record
		}
	}
	return sc, nil
}

// thin removes deviations as long as the schedule fails.
func thin(sc scenario, list []deviation, mem []byte) []deviation {
	deadline := time.Now().Add(20 * time.Second)
	for size := len(list) / 2; size > 0; size /= 2 {
		for from := 0; from < len(list) && time.Now().Before(deadline); {
			without := slices.Delete(slices.Clone(list), from, min(from+size, len(list)))
			if w, _ := follow(sc, without, mem, false); w.sim.failure != "" {
				list = without
			} else {
				from += size
			}
		}
		if size > 1 && size > len(list) {
			size = len(list)
		}
	}
	return list
}

// present shows a schedule by its sync points.
func present(sc scenario, list []deviation, mem []byte) string {
	w, trace := follow(sc, list, mem, true)
	text, err := json.Marshal(printed{sc, list})
	if err != nil {
		return err.Error()
	}
	trace = slices.DeleteFunc(trace, func(l string) bool {
		return strings.Contains(l, " load ") || strings.Contains(l, " store ") && !strings.Contains(l, "row")
	})
	return fmt.Sprintf("reduced: %s\n%d requests, %d steps, %d deviations; every access with: go test -tags ringsim -run 'TestSimulation$' ./shmring -v -replay '%s'\n%s",
		w.sim.failure, len(w.requests), w.sim.step, len(list), text, strings.Join(trace, "\n"))
}
