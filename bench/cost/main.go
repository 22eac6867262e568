package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"
	"google.golang.org/grpc"

	"rankd/bench/compare"
	"rankd/bench/exam"
	"rankd/bench/launch"
	"rankd/bench/load"
	"rankd/bench/monitor"
	"rankd/internal/testutil/rawcodec"
	"rankd/model"
	"rankd/model/demo"
)

type options struct {
	binary, bare string
	rounds       int
	duration     time.Duration
	warmup       time.Duration
	callers      int
	rows         int
	cpus         []int
	json         string
}

func main() {
	var o options
	pflag.StringVar(&o.binary, "binary", "", "rankd")
	pflag.StringVar(&o.bare, "bare", "", "rankd, built with the tag nostats")
	pflag.IntVar(&o.rounds, "rounds", 20, "pairs for each question; with less than 6 there is no verdict")
	pflag.DurationVar(&o.duration, "duration", 2*time.Second, "time that counts, a run")
	pflag.DurationVar(&o.warmup, "warmup", 500*time.Millisecond, "time before it that does not count")
	pflag.IntVar(&o.callers, "callers", 64, "callers of the closed loop")
	pflag.IntVar(&o.rows, "examples-per-request", 1, "examples in a request: with one, all that is counted for a request weighs most")
	pflag.IntSliceVar(&o.cpus, "server-cpus", nil, "processors of the server")
	pflag.StringVar(&o.json, "json", "", "file for the results")
	pflag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, &o, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "cost:", err)
		os.Exit(1)
	}
}

// way is one way to run a server.
type way struct {
	binary string
	flags  []string
	scrape bool
}

// question is two ways.
type question struct {
	what     string
	old, new way
}

func run(ctx context.Context, o *options, out io.Writer) error {
	dir, err := os.MkdirTemp("", "rankd-cost-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b, err := demo.Create(ctx, demo.Options{Dir: filepath.Join(dir, "demo"), Seed: 1, MaxVocab: 1000, Golden: 8, Small: true})
	if err != nil {
		return err
	}
	requests, err := requestsOf(ctx, b, o.rows)
	if err != nil {
		return err
	}
	collector, stop, err := collect()
	if err != nil {
		return err
	}
	defer stop()
	plain := way{binary: o.binary}
	traced := func(share string) way {
		return way{binary: o.binary, flags: []string{"--trace-endpoint=" + collector, "--trace-sample=" + share}}
	}
	results := map[string]*compare.Report{}
	for _, q := range []question{
		{"counters and histograms", way{binary: o.bare}, plain},
		{"a scrape a second", plain, way{binary: o.binary, scrape: true}},
		{"traces of one request in a hundred", plain, traced("0.01")},
		{"traces of all requests", plain, traced("1")},
	} {
		fmt.Fprintf(out, "\n%s: without (old) and with (new)\n", q.what)
		r, err := o.ask(ctx, b, requests, q)
		if err != nil {
			return fmt.Errorf("%s: %w", q.what, err)
		}
		fmt.Fprint(out, r.Summary())
		results[q.what] = r
	}
	if o.json == "" {
		return nil
	}
	return load.WriteJSON(o.json, results)
}

// requestsOf makes the requests, with the scores of the simulated accelerator.
func requestsOf(ctx context.Context, b *model.Bundle, rows int) (*exam.Requests, error) {
	e := exam.Default()
	e.Examples, e.Executor = 4096, exam.Sim
	set, err := exam.New(ctx, b, e)
	if err != nil {
		return nil, err
	}
	return set.Requests(rows)
}

func (o *options) ask(ctx context.Context, b *model.Bundle, requests *exam.Requests, q question) (*compare.Report, error) {
	return compare.Run(ctx, compare.Options{
		Rounds:   o.rounds,
		Progress: func(text string) { fmt.Fprintln(os.Stderr, q.what+": "+text) },
		Run: func(ctx context.Context, build string, round int) (_ *load.Result, err error) {
			w := q.old
			if build == compare.New {
				w = q.new
			}
			s, err := launch.Start(ctx, launch.Options{Binary: w.binary, Model: b.Dir, Flags: append([]string{"--executor=sim"}, w.flags...), CPUs: o.cpus})
			if err != nil {
				return nil, err
			}
			defer func() { err = errors.Join(err, s.Stop()) }()
			if w.scrape {
				defer scrape(s.HTTP)()
			}
			l := load.Default()
			l.Target, l.Requests, l.Connections, l.Threads = s.Target, requests, 64, 1
			l.Duration, l.Warmup, l.Callers, l.Seed, l.CPU = o.duration, o.warmup, o.callers, uint64(round+1), monitor.NewTree(s.PID).CPU
			r, err := load.Run(ctx, l)
			if err == nil && r.Mismatches > 0 {
				err = fmt.Errorf("%d replies were wrong: %s", r.Mismatches, r.FirstMismatch)
			}
			return r, err
		},
	})
}

// scrape reads the metrics once a second until it is stopped.
func scrape(address string) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			if r, err := http.Get("http://" + address + "/metrics"); err == nil {
				_, _ = io.Copy(io.Discard, r.Body)
				r.Body.Close()
			}
			select {
			case <-done:
				return
			case <-tick.C:
			}
		}
	}()
	return func() { close(done); <-ended }
}

// collect takes spans and forgets them.
func collect() (address string, stop func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	s := grpc.NewServer(grpc.ForceServerCodecV2(rawcodec.Codec{}), grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		var spans []byte
		if err := stream.RecvMsg(&spans); err != nil {
			return err
		}
		return stream.SendMsg(&[]byte{})
	}))
	go func() { _ = s.Serve(l) }() // ends with Stop
	return l.Addr().String(), s.Stop, nil
}
