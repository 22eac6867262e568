package steer

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"
)

// twin does in Go what the program does in the kernel.
type twin struct {
	turn               uint64
	picks, corrections []uint64
}

func (w *twin) choose(least bool) int {
	n := uint64(len(w.picks))
	choice := w.turn % n
	w.turn++
	if least {
		first := choice
		for k := range n {
			if i := (first + k) % n; w.picks[i]+w.corrections[i] < w.picks[choice]+w.corrections[choice] {
				choice = i
			}
		}
	}
	w.picks[choice]++
	return int(choice)
}

func TestProgramChoosesAsItsTwinDoes(t *testing.T) {
	permitted(t)
	const seed = 17
	rng := rand.New(rand.NewPCG(seed, 0))
	packet := make([]byte, 64)
	for _, policy := range []Policy{RoundRobin, LeastConnections} {
		for _, n := range []int{2, 3, 4, 7, 16, 63, 64} {
			p, err := load(n, policy)
			if err != nil {
				t.Fatalf("%s for %d sockets: %v", policy, n, err)
			}
			w := &twin{picks: make([]uint64, n), corrections: make([]uint64, n)}
			for step := range 300 {
				if p.corrections != nil && rng.IntN(10) == 0 {
					var value []byte
					for i := range n {
						// As account gives them: never below minus the picks, now and then beyond all others.
						w.corrections[i] = uint64(rng.IntN(5) - int(min(w.picks[i], uint64(rng.IntN(9)))))
						if rng.IntN(5) == 0 {
							w.corrections[i] += aside
						}
						value = binary.NativeEndian.AppendUint64(value, w.corrections[i])
					}
					if err := p.corrections.Put(uint32(0), value); err != nil {
						t.Fatal(err)
					}
				}
				got, _, err := p.code.Test(packet)
				if err != nil {
					t.Fatal(err)
				}
				if want := w.choose(policy == LeastConnections); int(got) != want {
					t.Fatalf("%s for %d sockets, seed %d, step %d: got %d, want %d (picks %v, corrections %v)", policy, n, seed, step, got, want, w.picks, w.corrections)
				}
			}
			if err := p.close(); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestAccountTurnsPicksIntoOpenConnections(t *testing.T) {
	var a account
	now := time.Unix(1000, 0)
	step := func(what string, after time.Duration, picks uint64, l Load, waiting int64, want int64) {
		t.Helper()
		now = now.Add(after)
		if got := int64(picks + a.correction(now, picks, l, waiting)); got != want {
			t.Errorf("%s: got %d connections, want %d", what, got, want)
		}
	}
	live := func(accepted uint64, open int64) Load { return Load{Accepted: accepted, Open: open, Live: true} }
	step("nothing yet", 0, 0, live(0, 0), 0, 0)
	step("five are coming", tick, 5, live(0, 0), 0, 5)
	step("three of them are accepted", tick, 5, live(3, 3), 2, 5)
	step("all are, and one is closed", tick, 5, live(5, 4), 0, 4)
	step("a pick that becomes nothing counts at first", tick, 6, live(5, 4), 0, 5)
	step("and still does shortly before the time", settleTime-1, 6, live(5, 4), 0, 5)
	t.Run("I5/it is forgotten when all is quiet", func(t *testing.T) {
		step("quiet", 1, 6, live(5, 4), 0, 4)
		step("and stays so", settleTime, 6, live(5, 4), 0, 4)
	})
	step("the next one counts", tick, 7, live(5, 4), 0, 5)
	step("the process dies with its connections", tick, 7, Load{Accepted: 5}, 1, aside+1)
	step("one waits for the successor, however long", 2*settleTime, 7, Load{Accepted: 5}, 1, aside+1)
	step("which takes it", tick, 7, live(6, 1), 0, 1)
	// A connection that was taken for lost comes after all: never less than none.
	step("two that seem lost", tick, 9, live(6, 1), 0, 3)
	step("are forgotten", settleTime, 9, live(6, 1), 0, 1)
	step("come", tick, 9, live(8, 3), 0, 1)
	step("and go", tick, 9, live(8, 0), 0, 0)
	step("and are counted right after a quiet time", settleTime, 9, live(8, 0), 0, 0)
}
