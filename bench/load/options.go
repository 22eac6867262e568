package load

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"rankd/bench/exam"
)

// Modes of load.
const (
	Closed  = "closed"
	Poisson = "poisson"
	Fixed   = "fixed"
)

// LimitedShare is the share of its processors from which on a client counts as the limit of a run.
const LimitedShare = 0.74

// maxOpen is how many calls may be without a reply: beyond it an open loop counts requests as failed instead of growing.
const maxOpen = 1 << 18

// Options say what load is made.
type Options struct {
	Target      string // "host:port" or "unix:path"; several, with commas between them, get equal shares of the connections
	Connections int
	Threads     int // workers
	Mode        string
	Callers     int     // closed: requests that are open at a time
	Rate        float64 // open: requests a second
	Warmup      time.Duration
	Duration    time.Duration // of the window
	Drain       time.Duration // how long replies are awaited after the window
	Deadline    time.Duration // of a call, also told to the server; 0: none
	Seed        uint64
	Requests    *exam.Requests
	Verify      bool

	// CPU returns the CPU seconds that the server has used so far; nil: they are not known.
	CPU func() (float64, error)

	// Middle, if not nil, is called in the middle of the window, on another goroutine.
	Middle func()
}

// Default returns a closed loop of one caller on one connection for 10 s after 2 s of warm-up.
func Default() Options {
	return Options{
		Connections: 1, Threads: 1, Mode: Closed, Callers: 1, Verify: true,
		Warmup: 2 * time.Second, Duration: 10 * time.Second, Drain: 5 * time.Second, Seed: 1,
	}
}

func (o *Options) validate() error {
	var errs []error
	refuse := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if o.Requests == nil || len(o.Requests.Messages) == 0 {
		refuse("requests: got none")
	}
	switch o.Mode {
	case Closed:
		if o.Callers < 1 {
			refuse("callers: got %d, want at least 1", o.Callers)
		}
	case Poisson, Fixed:
		if !(o.Rate > 0) || o.Rate > 1e7 {
			refuse("rate: got %v requests a second, want more than 0, at most 10 million", o.Rate)
		}
	default:
		refuse("mode: got %q, want %s, %s or %s", o.Mode, Closed, Poisson, Fixed)
	}
	if o.Connections < 1 || o.Threads < 1 {
		refuse("got %d connections and %d threads, want at least 1 of each", o.Connections, o.Threads)
	}
	if n := len(o.targets()) * o.Threads; n > o.Threads && o.Connections%n != 0 {
		refuse("got %d connections for %d targets on %d threads, want a multiple of %d", o.Connections, len(o.targets()), o.Threads, n)
	}
	if o.Warmup < 0 || o.Duration <= 0 || o.Drain < 0 || o.Deadline < 0 {
		refuse("times: got warm-up %v, duration %v, drain %v, deadline %v; want none negative and a duration", o.Warmup, o.Duration, o.Drain, o.Deadline)
	}
	return errors.Join(errs...)
}

func (o *Options) targets() []string { return strings.Split(o.Target, ",") }

// workers is how many of them have something to do.
func (o *Options) workers() int {
	n := min(o.Threads, o.Connections)
	if o.Mode == Closed {
		n = min(n, o.Callers)
	}
	return n
}

// Processors is how many of them this process may use.
func Processors() int { return runtime.NumCPU() }
