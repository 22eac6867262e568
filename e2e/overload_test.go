package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"rankd/internal/faults"
	"rankd/supervisor"
)

// surge sends calls of so many rows at a steady rate, whether earlier ones have ended or not, and counts how they end.
type surge struct {
	exam     *exam
	lanes    []*lane
	rows     int
	rate     float64 // calls a second
	deadline time.Duration

	sent, scored, wrong atomic.Int64
	late                atomic.Int64 // ended more than a tenth of a second after their deadline
	mu                  sync.Mutex
	ends                map[string]int // of the others, by code and reason
}

// run sends for some time and waits for the end of every call. It returns the calls scored a second.
func (g *surge) run(rng *rand.Rand, length time.Duration) float64 {
	g.ends = map[string]int{}
	var calls sync.WaitGroup
	began := time.Now()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for elapsed := time.Duration(0); elapsed < length; elapsed = time.Since(began) {
		for float64(g.sent.Load()) < g.rate*elapsed.Seconds() {
			l, picks := g.lanes[int(g.sent.Add(1))%len(g.lanes)], g.exam.pick(rng, g.rows)
			calls.Go(func() { g.call(l, picks) })
		}
		<-tick.C
	}
	length = time.Since(began)
	calls.Wait()
	return float64(g.scored.Load()) / length.Seconds()
}

func (g *surge) call(l *lane, picks []int) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), g.deadline)
	defer cancel()
	answered, err := g.exam.ask(ctx, l, picks, packedInt64, 0)
	switch {
	case err == nil:
		g.scored.Add(1)
	case answered:
		g.wrong.Add(1)
	default:
		g.mu.Lock()
		g.ends[status.Code(err).String()+" "+reasonOf(err)]++
		g.mu.Unlock()
	}
	if time.Since(began) > g.deadline+100*time.Millisecond {
		g.late.Add(1)
	}
}

func TestGoodputHoldsAtFourTimesTheRateAndExpiredWorkIsNotExecuted(t *testing.T) {
	if testing.Short() {
		t.Skip("takes several seconds; run without -short")
	}
	const rows, deadline = 16, 150 * time.Millisecond
	seed, b := seedOf(t), testModel(t)
	s := serveAimed(t, options{model: b.Dir, flags: []string{
		"--executor=sim", "--sim-verify=full", "--frontends=2", "--buckets=1,8,32", "--sim-call=8ms", // at most 4000 rows a second
	}})
	start, err := s.traces()
	if err != nil {
		t.Fatal(err)
	}
	e := newExam(t, b, seed, 2048, simulated(t, b.Manifest))
	lanes := flat(s.lanes(2, 2))

	full := &load{exam: e, lanes: lanes, callers: 16, seed: seed, rows: func(*rand.Rand) int { return rows }}
	full.start()
	full.progress(s.server, 100)
	before, began := full.scored.Load(), time.Now()
	<-time.After(2 * time.Second)
	capacity := float64(full.scored.Load()-before) / time.Since(began).Seconds()
	full.stop()
	full.wantRight(t)
	s.wantAtRest()

	m := s.scrape()
	g := &surge{exam: e, lanes: lanes, rows: rows, rate: 4 * capacity, deadline: deadline}
	goodput := g.run(random(seed, "surge"), 4*time.Second)
	s.wantAtRest()
	after := s.scrape()
	executed := (after["rankd_executed_rows_total"] - m["rankd_executed_rows_total"]) / rows
	t.Logf("capacity %.0f calls/s, offered %.0f, goodput %.0f; %d of %d scored, %.0f executed, %d late; the others: %v",
		capacity, g.rate, goodput, g.scored.Load(), g.sent.Load(), executed, g.late.Load(), g.ends)
	if g.wrong.Load() > 0 {
		t.Errorf("got %d replies with wrong scores, want none", g.wrong.Load())
	}
	if goodput < 0.7*capacity {
		t.Errorf("got a goodput of %.0f calls/s at four times the rate, want at least 7/10 of %.0f", goodput, capacity)
	}
	if scored := float64(g.scored.Load()); executed > 1.2*scored {
		t.Errorf("got %.0f calls executed and %.0f scored in time: work for callers that have given up", executed, scored)
	}
	for end := range g.ends {
		if !strings.HasPrefix(end, codes.DeadlineExceeded.String()) && !strings.HasPrefix(end, codes.ResourceExhausted.String()) {
			t.Errorf("got calls that ended with %q, want deadlines and full queues only", end)
		}
	}
	s.wantBaseline(lanes, start)
}

// wantBaseline closes lanes and wants nothing of their calls to be left.
func (s *aimed) wantBaseline(lanes []*lane, start traces) {
	s.t.Helper()
	s.wantAtRest()
	last := ""
	s.until(limit, "no open call and no pending row", func() bool {
		m := s.scrape()
		calls, rows := m["rankd_in_flight_calls"], m.sum("rankd_frontend_pending_rows")
		last = fmt.Sprintf("%v open calls, %v pending rows", calls, rows)
		return calls == 0 && rows == 0
	}, func() string { return last })
	for _, l := range lanes {
		l.conn.Close()
	}
	s.wantTraces(start)
	if m := s.scrape(); m["rankd_panics_total"] != 0 || m["rankd_frontend_restarts_total"] != 0 {
		s.t.Errorf("got %v panics and %v restarts of frontends, want none", m["rankd_panics_total"], m["rankd_frontend_restarts_total"])
	}
}

// heaps is the live heap of each process, by pid.
func (s *aimed) heaps() map[int]uint64 {
	s.t.Helper()
	found := map[int]uint64{}
	for _, c := range append([]supervisor.Child{s.self()}, s.state().Children...) {
		var r faults.Report
		for range 3 { // pools are emptied by the second collection
			r = s.aim(c, "")
		}
		found[c.PID] = r.Heap
	}
	return found
}

// wantHeaps wants no process to hold much more than before.
func (s *aimed) wantHeaps(before map[int]uint64) {
	s.t.Helper()
	const more = 8 << 20
	for pid, now := range s.heaps() {
		if was, ok := before[pid]; !ok || now > was+more {
			s.t.Errorf("got a live heap of %s in process %d, want about %s as before", mib(int64(now)), pid, mib(int64(was)))
		}
	}
}

// A leaked row or byte of a request would make the largest request that fits impossible.
func (s *aimed) wantWholeCapacity(e *exam, by [][]*lane, rows int) {
	s.t.Helper()
	picks := slices.Repeat([]int{1, 2, 3, 4}, rows/4)
	for i, lanes := range by {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		if _, err := e.ask(ctx, lanes[0], picks, packedInt64, 0); err != nil {
			s.t.Errorf("ask frontend %d for as many rows as it may have pending: %v", i, err)
		}
		cancel()
	}
}

func TestCancelledCallsLeaveNothingBehind(t *testing.T) {
	if testing.Short() {
		t.Skip("takes several seconds; run without -short")
	}
	const rows = 4096
	cancels := size(t, "RANKD_E2E_CANCELS", 1000)
	seed, b := seedOf(t), testModel(t)
	s := serveAimed(t, options{model: b.Dir, flags: []string{
		"--executor=sim", "--sim-verify=full", "--frontends=2", "--sim-call=2ms",
		"--max-request-rows=4096", "--frontend-pending-rows=4096", "--server-pending-rows=8192",
		"--max-request-bytes=512KiB", "--max-inflight-request-bytes=512KiB",
	}})
	e := newExam(t, b, seed, 2048, simulated(t, b.Manifest))
	warm := s.lanes(2, 1)
	s.wantWholeCapacity(e, warm, rows)
	for _, l := range flat(warm) {
		l.conn.Close()
	}
	s.wantAtRest()
	start, err := s.traces()
	if err != nil {
		t.Fatal(err)
	}
	heaps := s.heaps()
	by := s.lanes(2, 2)
	lanes := flat(by)
	bystander := &load{exam: e, lanes: lanes, callers: 2, seed: seed, rows: smallRows, deadline: patience}
	bystander.start()
	t.Cleanup(bystander.stop)

	// The time that a call of 8 rows takes beside the others, to cancel near it.
	rng := random(seed, "cancels")
	var took []time.Duration
	for range 50 {
		began := time.Now()
		if _, err := e.ask(context.Background(), lanes[0], e.pick(rng, 8), packedInt64, 0); err != nil {
			t.Fatal(err)
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	usual := took[len(took)/2]
	before := s.scrape()

	for name, after := range map[string]func(*rand.Rand) time.Duration{
		"just after sending": func(rng *rand.Rand) time.Duration { return time.Duration(rng.Int64N(int64(300 * time.Microsecond))) },
		"near completion": func(rng *rand.Rand) time.Duration {
			return usual*8/10 + time.Duration(rng.Int64N(int64(usual*4/10)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			var cancelled, scored, others, wrong atomic.Int64
			var left atomic.Int64
			left.Store(int64(cancels))
			var group sync.WaitGroup
			for n := range 16 {
				rng := random(seed, fmt.Sprint(name, n))
				group.Go(func() {
					for left.Add(-1) >= 0 {
						ctx, cancel := context.WithCancel(context.Background())
						timer := time.AfterFunc(after(rng), cancel)
						answered, err := e.ask(ctx, lanes[rng.IntN(len(lanes))], e.pick(rng, 1+rng.IntN(16)), form(rng.IntN(int(forms))), rng.IntN(3))
						timer.Stop()
						cancel()
						switch {
						case err == nil:
							scored.Add(1)
						case answered:
							wrong.Add(1)
						case status.Code(err) == codes.Canceled:
							cancelled.Add(1)
						default:
							others.Add(1)
							t.Errorf("a cancelled call: %v", err)
						}
					}
				})
			}
			group.Wait()
			t.Logf("%d cancelled, %d scored before that, %d wrong, %d others; a call usually takes %v", cancelled.Load(), scored.Load(), wrong.Load(), others.Load(), usual)
			if wrong.Load() > 0 {
				t.Errorf("got %d wrong scores, want none", wrong.Load())
			}
			if cancelled.Load() < int64(cancels)/10 {
				t.Errorf("got %d of %d calls cancelled, want many", cancelled.Load(), cancels)
			}
		})
	}
	bystander.stop()
	bystander.wantRight(t)
	bystander.wantNoFailure(t, noExcuse)
	s.wantAtRest()
	const reached = `outcome="cancelled"`
	if n := s.scrape().sum("rankd_requests_total", reached) - before.sum("rankd_requests_total", reached); n < float64(cancels)/10 {
		t.Errorf("got %v calls that the server knew when they were cancelled, want many of %d", n, 2*cancels)
	} else {
		t.Logf("%v calls were with the server when they were cancelled", n)
	}
	s.wantWholeCapacity(e, by, rows)
	s.wantBaseline(lanes, start)
	s.wantHeaps(heaps)
}
