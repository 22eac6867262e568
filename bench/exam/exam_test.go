package exam

import (
	"bytes"
	"context"
	"math"
	"path/filepath"
	"strings"
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
		s, err := New(b, small(protocol))
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
	for _, ids := range []string{"uniform", "uniform", "zipf:1.05"} {
		o := small(Rankd)
		o.IDs, o.CacheDir = ids, t.TempDir()
		var again *Set
		s, err := New(b, o)
		if err == nil {
			again, err = New(b, o) // from the cache
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
		s, err := New(b, o)
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

func TestOptionsThatMakeNoSenseAreRefused(t *testing.T) {
	b := bundle(t, demo.TestOptions{Tables: []demo.TestTable{{}}})
	for want, change := range map[string]func(*Options){
		"ids":      func(o *Options) { o.IDs = "zipf:0.5" },
		"form":     func(o *Options) { o.Form = Packed },
		"executor": func(o *Options) { o.Executor = "abacus" },
		"protocol": func(o *Options) { o.Protocol = "morse" },
		"examples": func(o *Options) { o.Examples = 0 },
		"bytes":    func(o *Options) { o.Width = 3 },
	} {
		o := small(Rankd)
		change(&o)
		if _, err := New(b, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error about %s", err, want)
		}
	}
}

func TestNetworkScoresAreThoseOfTheTestModel(t *testing.T) {
	b := bundle(t, demo.TestOptions{})
	o := small(Rankd)
	o.Executor = PJRT
	s, err := New(b, o)
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
