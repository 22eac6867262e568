package frontend

import (
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"rankd/shmring"
)

func contains(s, part string) bool { return strings.Contains(s, part) }

// TestEveryCallIsAnsweredExactlyOnce drives the core with random sizes, partial grants, device errors, cancellations and
// deadlines from several goroutines, and checks after the storm that each call had one reply, that good replies hold the
// right scores, and that every account is back at zero.
func TestEveryCallIsAnsweredExactlyOnce(t *testing.T) {
	for round := range 6 {
		seed := uint64(time.Now().UnixNano()) + uint64(round)
		t.Logf("seed %d", seed)
		storm(t, seed)
	}
}

type stormCall struct {
	*answer
	ids []int64
}

func storm(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 1))
	cfg := testConfig()
	cfg.ChunkRows = 1 + rng.IntN(8)
	cfg.InlineChunks = 1 + rng.IntN(4)
	cfg.GatherWorkers = 1 + rng.IntN(4)
	b := newBench(t, cfg, 1+rng.IntN(60), func(c *Core) {
		c.threads = 1 + rng.IntN(5) // 1: workers never help from the start
		c.spread = rng.IntN(4000)
	})
	b.ring.mu.Lock()
	b.ring.rng = rand.New(rand.NewPCG(seed, 2))
	b.ring.mu.Unlock()

	quit := make(chan struct{})
	var device, clients sync.WaitGroup
	device.Go(func() {
		rng := rand.New(rand.NewPCG(seed, 3))
		for {
			select {
			case <-quit:
				return
			case <-time.After(time.Duration(rng.IntN(300)) * time.Microsecond):
			}
			status := shmring.StatusOK
			if rng.IntN(20) == 0 {
				status = shmring.StatusDeviceError
			}
			b.ring.complete(1+rng.IntN(6), status)
		}
	})
	calls := make([][]stormCall, 4)
	for g := range calls {
		clients.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(10+g)))
			for range 60 {
				ids := sequence(rng.IntN(1000), 1+rng.IntN(1<<rng.IntN(8)))
				var deadline time.Time
				if rng.IntN(4) == 0 {
					deadline = time.Now().Add(time.Duration(rng.IntN(40)) * time.Millisecond)
				}
				if rng.IntN(15) == 0 {
					ids[rng.IntN(len(ids))] = 1000 + int64(rng.IntN(5)) // refused
				}
				a := newAnswer()
				ticket := b.ScoreUnary(APIPredict, encode(t, predictOf(ids...)), deadline, a)
				calls[g] = append(calls[g], stormCall{a, ids})
				switch rng.IntN(6) {
				case 0:
					ticket.Cancel()
				case 1:
					clients.Go(func() {
						select {
						case <-a.done:
						case <-time.After(time.Millisecond):
						}
						ticket.Cancel() // near or after its completion
					})
				}
			}
		})
	}
	clients.Wait()
	good := 0
	for _, list := range calls {
		for _, c := range list {
			c.wait(t)
			if c.err == nil {
				wantScores(t, c.scores(t), c.ids)
				good++
			}
		}
	}
	if good == 0 {
		t.Errorf("seed %d: no call was scored, want most", seed)
	}
	b.restored(t)
	close(quit)
	device.Wait()
	for _, list := range calls {
		for _, c := range list {
			if n := c.replies.Load(); n != 1 {
				t.Errorf("seed %d: a call of %d rows had %d replies, want 1", seed, len(c.ids), n)
			}
		}
	}
}
