//go:build ringsim

package shmring

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
)

// A simulator uses one processor, since its actors take turns. Large runs are split among processes, one a processor:
// RANKD_SIM_WORKER says "k/n" in each.

func isWorker() bool { return os.Getenv("RANKD_SIM_WORKER") != "" }

// worker returns which part of the work is this process's.
func worker() (part, of int) {
	if n, err := fmt.Sscanf(os.Getenv("RANKD_SIM_WORKER"), "%d/%d", &part, &of); err != nil || n != 2 || of < 1 {
		return 0, 1
	}
	return part, of
}

// result is what a worker tells.
type result struct {
	Name                                     string
	Schedules, Steps, Kills, Stops, Requests int
	Longest                                  int
	Seconds                                  float64
}

func (r *result) add(w *simWorld) {
	r.Schedules++
	r.Steps += w.sim.step
	r.Longest = max(r.Longest, w.sim.step)
	r.Requests += len(w.requests)
	for _, d := range w.sim.record {
		switch d.Kind {
		case "kill":
			r.Kills++
		case "stop", "freeze", "pause":
			r.Stops++
		}
	}
}

func (r *result) join(o result) {
	r.Schedules += o.Schedules
	r.Steps += o.Steps
	r.Kills += o.Kills
	r.Stops += o.Stops
	r.Requests += o.Requests
	r.Longest, r.Seconds = max(r.Longest, o.Longest), max(r.Seconds, o.Seconds)
}

func (r *result) String() string {
	text := fmt.Sprintf("%s: %d schedules of up to %d steps in %.1f s", r.Name, r.Schedules, r.Longest, r.Seconds)
	if r.Requests > 0 {
		text += fmt.Sprintf("; %d steps, %d requests, %d kills, %d stops and pauses", r.Steps, r.Requests, r.Kills, r.Stops)
	}
	return text
}

const resultMark = "simulation result: "

// report logs a result, or hands it to the process that has asked for it.
func report(t *testing.T, r result) {
	if !isWorker() {
		t.Log(r.String())
		return
	}
	line, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("\n%s%s\n", resultMark, line)
}

// runWorkers runs a test in a process for each processor, passes on what they say, and adds their results up.
func runWorkers(t *testing.T, test string) {
	n := runtime.NumCPU()
	var (
		mu    sync.Mutex
		order []string
		sums  = map[string]*result{}
		group sync.WaitGroup
	)
	for k := range n {
		cmd := exec.Command(os.Args[0], "-test.run", test, "-test.v", "-test.timeout=0")
		cmd.Env = append(os.Environ(), fmt.Sprintf("RANKD_SIM_WORKER=%d/%d", k, n))
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		group.Go(func() {
			lines := bufio.NewScanner(out)
			lines.Buffer(nil, 1<<24)
			for lines.Scan() {
				text, marked := strings.CutPrefix(lines.Text(), resultMark)
				mu.Lock()
				var r result
				if !marked {
					if !slices.ContainsFunc([]string{"=== ", "--- PASS", "    --- PASS", "PASS"}, func(p string) bool { return strings.HasPrefix(text, p) }) && text != "" {
						fmt.Println(text)
					}
				} else if err := json.Unmarshal([]byte(text), &r); err != nil {
					t.Errorf("read the result of a worker: %v", err)
				} else if sum := sums[r.Name]; sum != nil {
					sum.join(r)
				} else {
					order = append(order, r.Name)
					sums[r.Name] = &r
				}
				mu.Unlock()
			}
			if err := cmd.Wait(); err != nil {
				t.Errorf("worker %d of %d: %v", k+1, n, err)
			}
		})
	}
	group.Wait()
	for _, name := range order {
		t.Log(sums[name].String())
	}
}
