package exam

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"rankd/frontend/wire"
	"rankd/internal/testutil"
	"rankd/model"
	"rankd/model/demo"
)

func TestMain(m *testing.M) { testutil.Main(m) }

func bundle(t *testing.T, o demo.TestOptions) *model.Bundle {
	t.Helper()
	o.Dir, o.Golden = filepath.Join(t.TempDir(), "model"), -1
	b, err := demo.CreateTest(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func small(protocol string) Options {
	o := Default()
	o.Examples, o.Protocol = 300, protocol
	return o
}

func TestMarkPassesTheRightReplyOnly(t *testing.T) {
	b := bundle(t, demo.TestOptions{PerTable: true})
	for _, protocol := range []string{Rankd, KServe} {
		s, err := New(context.Background(), b, small(protocol))
		if err != nil {
			t.Fatal(err)
		}
		r, err := s.Requests(3)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Messages) != minRequests {
			t.Errorf("got %d requests, want %d", len(r.Messages), minRequests)
		}
		right := r.Answer(5)
		t.Run("I2/"+protocol, func(t *testing.T) {
			if _, err := r.Mark(5, right); err != nil {
				t.Errorf("the right reply: %v", err)
			}
			if _, err := r.Mark(6, right); err == nil {
				t.Error("the reply to another request: got no error")
			}
			for name, change := range map[string]func([]byte){
				"a score of the last row": func(b []byte) { copy(b[len(b)-4*s.columns:], []byte{0, 0, 0, 0x3f}) },
				"rows in another order":   func(b []byte) { n := 4 * s.columns; row := bytes.Clone(b[:n]); copy(b, b[n:2*n]); copy(b[n:], row) },
				"not a number":            func(b []byte) { copy(b, []byte{0, 0, 0xc0, 0x7f}) },
			} {
				if _, err := r.Mark(5, r.answer(5, change)); err == nil {
					t.Errorf("%s: got no error", name)
				}
			}
			for cut := range right {
				if _, err := r.Mark(5, right[:cut]); err == nil {
					t.Errorf("a reply cut to %d of %d bytes: got no error", cut, len(right))
				}
			}
		})
		t.Run("I3/"+protocol, func(t *testing.T) {
			if n := testing.AllocsPerRun(100, func() { _, _ = r.Mark(5, right) }); n != 0 {
				t.Errorf("got %v allocations, want none", n)
			}
		})
	}
}

func TestI1SameSeedSameBytes(t *testing.T) {
	b := bundle(t, demo.TestOptions{Tables: []demo.TestTable{{Hotness: 2}, {}, {Hotness: 1, Combiner: model.CombinerMean}}})
	var first *Requests
	cache := t.TempDir()
	for _, ids := range []string{"uniform", "uniform", "zipf:1.05", SharedUser} {
		o := small(Rankd)
		o.CacheDir = cache
		if o.IDs = ids; ids == SharedUser { // keeps scores of its own
			o.IDs, o.Workload = "uniform", ids
		}
		var again *Set
		s, err := New(context.Background(), b, o)
		if err == nil {
			again, err = New(context.Background(), b, o) // from the cache
		}
		if err != nil {
			t.Fatal(err)
		}
		r, err := s.Requests(2)
		if err != nil {
			t.Fatal(err)
		}
		for i := range again.scores {
			if again.scores[i] != s.scores[i] {
				t.Fatalf("%s: score %d: got %v from the cache, want %v", ids, i, again.scores[i], s.scores[i])
			}
		}
		if first == nil {
			first = r
			continue
		}
		if ids != "uniform" && slices.Equal(s.scores, first.set.scores) {
			t.Errorf("%s: got the scores of the uniform ids", ids)
		}
		if same := bytes.Equal(bytes.Join(first.Messages, nil), bytes.Join(r.Messages, nil)); same != (ids == "uniform") {
			t.Errorf("%s: got the same requests: %v", ids, same)
		}
	}
}

func TestRequestsAreWhatAServerReads(t *testing.T) {
	b := bundle(t, demo.TestOptions{Tables: []demo.TestTable{{Hotness: 2}, {}}})
	for _, width := range []int{4, 8} {
		o := small(Rankd)
		o.Width = width
		s, err := New(context.Background(), b, o)
		if err != nil {
			t.Fatal(err)
		}
		r, err := s.Requests(4)
		if err != nil {
			t.Fatal(err)
		}
		var q wire.Request
		if err := q.DecodePredict(r.Messages[0]); err != nil {
			t.Fatal(err)
		}
		names := map[string]int{}
		for _, in := range q.Inputs {
			names[string(in.Name)] = len(in.Data)
		}
		if len(names) != 4 || names["t0"] != 4*2*width || names["t1.lengths"] != 16 || names["dense"] != 4*13*4 {
			t.Errorf("width %d: got inputs %v", width, names)
		}
	}
}

// Expectations are compared with what the bytes of a request say, with inputs of one row repeated.
func TestI4SharedUserScoresAreThoseOfRepeatedInputs(t *testing.T) {
	const rows, tables = 7, 5
	b := bundle(t, demo.TestOptions{Tables: slices.Repeat([]demo.TestTable{{Hotness: 2}}, tables)})
	for _, workload := range Workloads() {
		o := small(Rankd)
		o.Executor, o.Workload, o.Form = PJRT, workload, Tables
		s, err := New(context.Background(), b, o)
		if err != nil {
			t.Fatal(err)
		}
		r, err := s.Requests(rows)
		if err != nil {
			t.Fatal(err)
		}
		for i, message := range r.Messages {
			var q wire.Request
			if err := q.DecodePredict(message); err != nil {
				t.Fatal(err)
			}
			want := make([]float64, rows)
			brought := map[string]int64{}
			for _, in := range q.Inputs {
				brought[string(in.Name)] = in.Shape[0]
				for row := range want {
					at := row
					if in.Shape[0] == 1 {
						at = 0
					}
					if string(in.Name) == "dense" {
						for j := range 13 {
							v := math.Float32frombits(binary.LittleEndian.Uint32(in.Data[4*(13*at+j):]))
							want[row] += float64(j+1) * float64(v)
						}
						continue
					}
					table := int(in.Name[1] - '0')
					for k := range 2 {
						id := binary.LittleEndian.Uint32(in.Data[4*(2*at+k):])
						want[row] += float64(table+1) * float64(demo.TestRow(table, int64(id)))
					}
				}
			}
			user := int64(rows)
			if workload == SharedUser {
				user = 1
			}
			if brought["t0"] != user || brought["t1"] != user || brought["dense"] != user || brought["t2"] != rows || brought["t4"] != rows {
				t.Fatalf("%s: got rows %v, want %d for t0, t1 and dense, %d for the others", workload, brought, user, rows)
			}
			seen := map[int32]bool{}
			for row, p := range r.picks[i] {
				if got := float64(s.scores[p]); math.Abs(got-want[row]) > 1e-6*math.Abs(want[row]) {
					t.Fatalf("%s: request %d, row %d: got %v expected, want %v", workload, i, row, got, want[row])
				}
				if seen[p] && workload == SharedUser {
					t.Fatalf("request %d has a candidate twice", i)
				}
				seen[p] = true
			}
			if _, err := r.Mark(i, r.Answer(i)); err != nil {
				t.Fatalf("the right reply: %v", err)
			}
		}
	}
}

func TestCandidatesAreDealtOutToUsers(t *testing.T) {
	b := bundle(t, demo.TestOptions{})
	for examples, want := range map[int][2]int{ // users, candidates of the last one
		300: {1, 300}, CandidatesPerUser: {1, CandidatesPerUser}, 3*CandidatesPerUser + 100: {3, CandidatesPerUser + 34},
	} {
		o := small(Rankd)
		o.Examples, o.Workload = examples, SharedUser
		s, err := New(context.Background(), b, o)
		if err != nil {
			t.Fatal(err)
		}
		if _, n := s.users.run(s.users.count - 1); s.users.count != want[0] || n != want[1] {
			t.Errorf("%d examples: got %d users, %d candidates of the last one; want %v", examples, s.users.count, n, want)
		}
		_, most := s.users.run(0)
		if _, err := s.Requests(most + 1); err == nil || !strings.Contains(err.Error(), "candidates of a user") {
			t.Errorf("more than a user's candidates: got %v, want an error about them", err)
		}
		r, err := s.Requests(min(most, 200))
		if err != nil {
			t.Fatal(err)
		}
		asked := map[int32]int{}
		for _, picks := range r.picks {
			for _, p := range picks {
				if s.users.of(int(p)) != s.users.of(int(picks[0])) {
					t.Fatal("a request is for two users")
				}
				asked[p]++
			}
		}
		for e := range examples {
			if asked[int32(e)] == 0 {
				t.Fatalf("%d examples: example %d is in no request", examples, e)
			}
		}
		if text := s.Describe(); !strings.Contains(text, "the first 2 of the 4 tables, 2 of the 4 ids of a row, and the dense features") {
			t.Errorf("got %q", text)
		}
	}
}

func TestOptionsThatMakeNoSenseAreRefused(t *testing.T) {
	b := bundle(t, demo.TestOptions{Tables: []demo.TestTable{{}}})
	for want, change := range map[string]func(*Options){
		"ids":                      func(o *Options) { o.IDs = "zipf:0.5" },
		"form":                     func(o *Options) { o.Form = Packed },
		"executor":                 func(o *Options) { o.Executor = "abacus" },
		"protocol":                 func(o *Options) { o.Protocol = "morse" },
		"examples":                 func(o *Options) { o.Examples = 0 },
		"bytes":                    func(o *Options) { o.Width = 3 },
		"workload":                 func(o *Options) { o.Workload = "rest" },
		"rows than the candidates": func(o *Options) { o.Workload, o.Form = SharedUser, Packed },
	} {
		o := small(Rankd)
		change(&o)
		if _, err := New(context.Background(), b, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error about %s", err, want)
		}
	}
}

func TestSharedUserWantsInputsOnBothSides(t *testing.T) {
	b := bundle(t, demo.TestOptions{Tables: []demo.TestTable{{Hotness: 1}}, DenseWidth: -1})
	o := small(Rankd)
	o.Workload = SharedUser
	if _, err := New(context.Background(), b, o); err == nil || !strings.Contains(err.Error(), "inputs for the user") {
		t.Errorf("got %v, want an error: the user has no inputs", err)
	}
}

func TestNetworkScoresAreThoseOfTheTestModel(t *testing.T) {
	b := bundle(t, demo.TestOptions{})
	o := small(Rankd)
	o.Executor = PJRT
	s, err := New(context.Background(), b, o)
	if err != nil {
		t.Fatal(err)
	}
	for e, x := range s.examples {
		want := 0.0
		for i, bag := range x.Bags {
			want += float64(i+1) * float64(demo.TestRow(i, bag.IDs[0]))
		}
		for j, v := range x.Dense[0] {
			want += float64(j+1) * float64(v)
		}
		if got := float64(s.scores[e]); math.Abs(got-want) > 1e-6*math.Abs(want) {
			t.Fatalf("example %d: got %v, want %v", e, got, want)
		}
	}
}

func TestScoresAreNotComputedAfterTheEnd(t *testing.T) {
	b := bundle(t, demo.TestOptions{})
	ctx, cancel := context.WithCancel(context.Background())
	var done atomic.Int64
	err := inParallel(ctx, 1<<40, func(int) error { // without end, but for the context
		if done.Add(1) == 100 {
			cancel()
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("ended meanwhile: got %v, want %v", err, context.Canceled)
	}
	o := small(Rankd)
	o.CacheDir = t.TempDir()
	if _, err := New(ctx, b, o); !errors.Is(err, context.Canceled) {
		t.Errorf("ended before: got %v, want %v", err, context.Canceled)
	}
	if files, _ := os.ReadDir(o.CacheDir); len(files) > 0 {
		t.Errorf("got %v kept of scores that were not computed", files)
	}
}
