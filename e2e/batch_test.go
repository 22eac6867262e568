package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"rankd/internal/testutil"
)

// Good calls share batches with bad ones and with whatever padding rows held before. A call's reply must be the one that it
// gets alone, and only the bad ones fail.
func TestBadCallsFailAloneAmongGoodOnes(t *testing.T) {
	c := newClassroom(t, "--batching=linger", "--max-delay=2ms")
	bad := malformedRequests()
	seed := seedOf(t)
	const callers, calls = 64, 40
	var group sync.WaitGroup
	var mu sync.Mutex
	refused := map[string]int{}
	for n := range callers {
		l, rng := c.lanes[n%len(c.lanes)], random(seed, fmt.Sprintf("caller %d", n))
		group.Go(func() {
			for range calls {
				ctx, cancel := context.WithTimeout(context.Background(), limit)
				if rng.IntN(20) == 0 {
					m := bad[rng.IntN(len(bad))]
					_, err := l.predict.Predict(ctx, c.exam.predictRequest(m.mold(c.good())))
					wantRefusal(t, err, codes.InvalidArgument, m.reason)
					mu.Lock()
					refused[m.reason]++
					mu.Unlock()
				} else {
					rows := []int{1, 2, 3, 7, 31}[rng.IntN(5)]
					if _, err := c.exam.ask(ctx, l, c.exam.pick(rng, rows), form(rng.IntN(int(forms))), rng.IntN(3)); err != nil {
						t.Errorf("a good call of %d rows: %v", rows, err)
					}
				}
				cancel()
			}
		})
	}
	group.Wait()
	t.Logf("refusals by reason: %v", refused)
	m := c.scrape()
	if shared := m.sum("rankd_executed_rows_total") / m.sum("rankd_batches_total"); shared < 10 {
		t.Errorf("got %.1f rows a batch, want calls that share batches", shared)
	}
	c.wantUnmoved(t)
}

func TestRowLimitsHoldWhateverTheRequestsAre(t *testing.T) {
	const maxBatch = 256
	for _, batching := range []string{"continuous", "fused", "off"} {
		t.Run(batching, func(t *testing.T) {
			c := newClassroom(t, "--batching="+batching, "--max-delay=5ms")
			rng := random(seedOf(t), batching)
			together := func(rows ...int) {
				t.Helper()
				var group sync.WaitGroup
				for n, r := range rows {
					picks := c.exam.pick(rng, r)
					group.Go(func() {
						ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
						defer cancel()
						if _, err := c.exam.ask(ctx, c.lanes[n%len(c.lanes)], picks, packedInt64, n%2); err != nil {
							t.Errorf("%d rows among %v: %v", r, rows, err)
						}
					})
				}
				group.Wait()
			}
			together(slices.Repeat([]int{40}, 10)...)
			together(255, 2)
			for _, rows := range []int{255, 256, 257, 511, 512, 513, 1000} {
				together(rows)
			}
			together(100_000)
			m := c.scrape()
			batches, within := m["rankd_batch_rows_count"], m[`rankd_batch_rows_bucket{le="256"}`]
			if batches == 0 || batches != within {
				t.Errorf("got %v of %v batches with at most %d rows, want all", within, batches, maxBatch)
			}
			if c.exam.m.MaxBatch != maxBatch {
				t.Errorf("got a model with batches of %d, want %d", c.exam.m.MaxBatch, maxBatch)
			}
			c.wantUnmoved(t)
		})
	}
	t.Run("more rows than a request may have", func(t *testing.T) {
		c := newClassroom(t, "--max-request-rows=1000")
		picks := c.exam.pick(rand.New(rand.NewPCG(1, 2)), 1001)
		for kind := range 3 {
			c.try(t, func(ctx context.Context, l *lane) error {
				_, err := c.exam.ask(ctx, l, picks, perTable, kind)
				return err
			},
				func(err error) {
					wantRefusal(t, err, codes.InvalidArgument, "request_too_large", "1001", "1000", "--max-request-rows")
				})
		}
		c.wantUnmoved(t)
	})
}

// A call of 100000 rows takes two seconds on a device of 20 µs a row; single rows must go in between its batches, also those
// of its own frontend.
func TestSmallCallsAreNotStarvedByALargeOne(t *testing.T) {
	for _, batching := range []string{"continuous", "off"} {
		t.Run(batching, func(t *testing.T) {
			c := newClassroom(t, "--sim-row=20us", "--batching="+batching)
			by := c.server.lanes(2, 2)
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			large := make(chan time.Duration)
			go func() {
				began := time.Now()
				if _, err := c.exam.ask(ctx, by[0][0], slices.Repeat([]int{1, 2, 3, 4, 5}, 20_000), packedInt64, 0); err != nil {
					t.Errorf("the large call: %v", err)
				}
				large <- time.Since(began)
			}()
			testutil.Eventually(t, limit, "the large call to be admitted", func() bool {
				return c.scrape().sum("rankd_frontend_pending_rows") > 10_000
			})
			var took []time.Duration
			for n := 0; ; n++ {
				began := time.Now()
				if _, err := c.exam.ask(ctx, by[n%2][1], []int{n % 100}, perTable, 0); err != nil {
					t.Errorf("a small call: %v", err)
				}
				took = append(took, time.Since(began))
				select {
				case whole := <-large:
					slices.Sort(took)
					median, worst := took[len(took)/2], took[len(took)-1]
					t.Logf("large call %v; %d small ones meanwhile: median %v, worst %v", whole, len(took), median, worst)
					// A small call queues behind the slabs that the large one has filled, not behind the large one.
					if len(took) < 8 || median > whole/10 || worst > whole/3 {
						t.Errorf("got %d small calls with median %v and worst %v beside a call of %v, want at least 8, 1/10 and 1/3 of it",
							len(took), median, worst, whole)
					}
					c.wantAtRest()
					return
				default:
				}
			}
		})
	}
}
