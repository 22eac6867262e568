package load

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"google.golang.org/grpc/codes"

	"rankd/bench/monitor"
	"rankd/internal/h2wire"
)

// worker makes a part of the load on one thread. It implements h2wire.Handler; the tag of a call is the number of its slot.
type worker struct {
	o      *Options
	loop   *h2wire.Loop
	method *h2wire.Method
	base   time.Time     // moment 0 of all workers
	offset time.Duration // of the loop's clock
	warm   time.Duration // start of the window
	end    time.Duration // its end

	pool     pool
	callers  int
	schedule schedule
	slots    []slot
	free     []uint32
	open     int
	request  int
	over     bool // what comes now is not counted any more

	tally   tally
	second  second
	seconds *seconds
	ended   uint64 // replies within the window, of any kind
	noReply uint64
	busy    float64 // share of a processor in the window
	alive   bool    // a connection takes calls at the end
}

// slot is a call that may be open.
type slot struct {
	due     time.Duration
	request int32
	conn    int32
	used    bool
}

const (
	greetLimit = 10 * time.Second
	lookEvery  = 50 * time.Millisecond // at the context, and at boundaries
)

// prepare connects and waits until the server has greeted on every connection. It runs on the worker's thread.
func (w *worker) prepare(ctx context.Context) error {
	if err := w.pool.connect(ctx); err != nil {
		return err
	}
	began := w.loop.Now()
	for !w.pool.greeted() {
		if w.loop.Now()-began > greetLimit {
			return fmt.Errorf("greet %s: got no settings within %v: is it a gRPC server without TLS?", w.o.Target, greetLimit)
		}
		if err := errors.Join(ctx.Err(), w.loop.Turn(lookEvery)); err != nil {
			return err
		}
		if w.loop.Sessions() < len(w.pool.list) {
			return fmt.Errorf("greet %s: the connection was closed", w.o.Target)
		}
	}
	return nil
}

// run makes the load until the window and the drain are over.
func (w *worker) run(ctx context.Context) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	w.offset = w.loop.Now() - w.now()
	for range w.callers {
		w.begin(w.newSlot(), w.now())
	}
	usage := stopwatch{}
	for {
		now := w.now()
		if w.o.Mode != Closed {
			w.issue(now) // before the end is looked at: a client that was held up beyond it must still send what was due (I2)
		}
		if now >= w.warm {
			usage.start()
		}
		if now >= w.end {
			usage.stop()
			if w.open == 0 || now >= w.end+w.o.Drain {
				break
			}
		}
		wait := w.until(now)
		if w.o.Mode != Closed && w.schedule.due < w.end {
			wait = min(wait, max(w.schedule.due-w.now(), 0))
		}
		if err := errors.Join(ctx.Err(), w.loop.Turn(wait)); err != nil {
			return err
		}
	}
	w.busy = usage.share()
	w.settle()
	return nil
}

// until is how long it is to the next boundary.
func (w *worker) until(now time.Duration) time.Duration {
	for _, t := range []time.Duration{w.warm, w.end, w.end + w.o.Drain} {
		if t > now {
			return min(t-now, lookEvery)
		}
	}
	return 0
}

func (w *worker) now() time.Duration { return time.Since(w.base) }

func (w *worker) timed(due time.Duration) bool { return due >= w.warm && due < w.end }

// issue begins every call that is due (I2).
func (w *worker) issue(now time.Duration) {
	for w.schedule.due <= now && w.schedule.due < w.end {
		due := w.schedule.due
		w.schedule.next()
		if w.open >= maxOpen {
			w.unsent(due, codes.ResourceExhausted, "the load generator has too many calls open")
			continue
		}
		w.begin(w.newSlot(), due)
	}
}

func (w *worker) newSlot() uint32 {
	if n := len(w.free); n > 0 {
		i := w.free[n-1]
		w.free = w.free[:n-1]
		return i
	}
	w.slots = append(w.slots, slot{conn: -1})
	return uint32(len(w.slots) - 1)
}

// begin starts a call in a slot. Without a connection a caller waits for one, and a scheduled call has failed.
func (w *worker) begin(i uint32, due time.Duration) {
	s := &w.slots[i]
	if w.o.Mode != Closed || s.conn < 0 {
		s.conn = w.pool.pick()
	}
	call := h2wire.Call{Method: w.method, Message: w.o.Requests.Messages[w.request], Handler: w, Tag: uint64(i)}
	now := w.now()
	if w.o.Deadline > 0 {
		call.Deadline = due + w.offset + w.o.Deadline
	}
	if w.pool.list[s.conn].session.Start(now+w.offset, call) != nil {
		if w.o.Mode == Closed {
			w.pool.park(s.conn, i)
			return
		}
		w.pool.renew(s.conn)
		w.free = append(w.free, i)
		w.unsent(due, codes.Unavailable, "no connection to the server")
		return
	}
	s.due, s.request, s.used = due, int32(w.request), true
	w.request = (w.request + 1) % len(w.o.Requests.Messages)
	w.open++
	if w.timed(due) {
		w.tally.timed++
		if w.o.Mode != Closed {
			observe(w.tally.lag, now-due)
		}
	}
}

// unsent counts a scheduled call that was not sent.
func (w *worker) unsent(due time.Duration, code codes.Code, text string) {
	if w.timed(due) {
		w.tally.timed++
		w.tally.fail(code, text, nil)
	}
}

// Done is told the end of a call.
func (w *worker) Done(tag uint64, r *h2wire.Reply) {
	if w.over {
		return
	}
	now := w.now()
	s := &w.slots[tag]
	s.used = false
	w.open--
	w.count(s, r, now)
	if w.o.Mode != Closed {
		w.free = append(w.free, uint32(tag))
		return
	}
	if now < w.end {
		w.begin(uint32(tag), w.now())
	}
}

// count notes the end of the call in a slot.
func (w *worker) count(s *slot, r *h2wire.Reply, now time.Duration) {
	timed, inWindow := w.timed(s.due), w.timed(now)
	if inWindow {
		w.ended++
		w.turnSecond(int((now - w.warm) / time.Second))
	}
	switch difference, err := w.mark(s, r); {
	case r.Code != codes.OK:
		if timed {
			w.tally.failReply(r)
		}
		if inWindow {
			w.second.failed++
		}
	case err != nil: // also during the warm-up: a server that answers wrongly is of no use
		if w.tally.mismatch == "" {
			w.tally.mismatch = fmt.Sprintf("request %d: %v", s.request, err)
		}
		w.tally.mismatches++
		if !timed {
			w.tally.timed++ // so that I4 holds
		}
		if inWindow {
			w.second.failed++
		}
	default:
		w.tally.difference = max(w.tally.difference, difference)
		if timed {
			w.tally.ok++
			observe(w.tally.latency, now-s.due)
		}
		if inWindow {
			w.tally.inWindow++
			w.second.ok++
			observe(w.second.latency, now-s.due)
		}
	}
}

// mark compares a reply with its expectation (I3).
func (w *worker) mark(s *slot, r *h2wire.Reply) (difference float64, err error) {
	if r.Code != codes.OK || !w.o.Verify {
		return 0, nil
	}
	return w.o.Requests.Mark(int(s.request), r.Message)
}

// turnSecond hands in the last second when another one begins.
func (w *worker) turnSecond(n int) {
	if n != w.second.number {
		w.seconds.add(&w.second)
		w.second.number = n
	}
}

// settle counts what has no reply.
func (w *worker) settle() {
	w.over = true
	w.alive = w.pool.alive()
	w.seconds.add(&w.second)
	for i := range w.slots {
		if s := &w.slots[i]; s.used && w.timed(s.due) {
			w.noReply++
		}
	}
}

// close ends the connections; calls that are still open end without being counted.
func (w *worker) close() error {
	w.over = true
	w.pool.stop()
	return errors.Join(w.loop.Turn(0), w.loop.Close()) // the turn takes connections that were made meanwhile, so that they are closed
}

// stopwatch measures the CPU time of a thread.
type stopwatch struct {
	began, ended time.Time
	from, to     float64
}

func (s *stopwatch) start() {
	if s.began.IsZero() {
		s.began, s.from = time.Now(), monitor.ThreadUsage()
	}
}

func (s *stopwatch) stop() {
	if s.ended.IsZero() {
		s.ended, s.to = time.Now(), monitor.ThreadUsage()
	}
}

func (s *stopwatch) share() float64 { return (s.to - s.from) / s.ended.Sub(s.began).Seconds() }
