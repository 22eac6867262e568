package deviceowner

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"rankd/deviceowner/executor"
)

// fake is an executor whose score of a row is the row's value plus 1000. Its launches end when the test says so, unless
// auto is set. It checks what an executor may rely on, and fails the test if a caller breaks it.
type fake struct {
	t       testing.TB
	depth   int
	auto    func(*flight)        // called by Launch when set; ends the launch, now or from another goroutine
	verdict func([]uint32) error // of a batch's rows when a launch ends; nil: all succeed

	mu     sync.Mutex
	flying []*flight
	all    [][]uint32 // the rows of every launch, in order
	most   int        // launches in flight at once
}

type flight struct {
	fake  *fake
	batch *executor.Batch
	rows  []uint32
	done  func(error)
}

func (f *fake) Name() string                       { return "fake" }
func (f *fake) Simulated() bool                    { return true }
func (f *fake) Depth() int                         { return f.depth }
func (f *fake) Compile(context.Context, int) error { return nil }
func (f *fake) Close() error                       { return nil }

func (f *fake) Launch(b *executor.Batch, done func(error)) error {
	if b.Rows < 1 || b.Rows > b.Bucket || len(b.Arrays[0]) != b.Bucket*testStride || len(b.Scores) != b.Bucket*4 {
		f.t.Errorf("launch of %d rows in bucket %d with arrays of %d and scores of %d bytes", b.Rows, b.Bucket, len(b.Arrays[0]), len(b.Scores))
	}
	v := &flight{fake: f, batch: b, done: done, rows: rowsOf(b)}
	f.mu.Lock()
	f.flying = append(f.flying, v)
	f.all = append(f.all, v.rows)
	f.most = max(f.most, len(f.flying))
	over := len(f.flying) > f.depth
	f.mu.Unlock()
	if over {
		f.t.Errorf("I1: more than %d launches in flight", f.depth)
	}
	if f.auto != nil {
		f.auto(v)
	}
	return nil
}

func rowsOf(b *executor.Batch) []uint32 {
	rows := make([]uint32, b.Rows)
	for i := range rows {
		rows[i] = binary.LittleEndian.Uint32(b.Arrays[0][i*testStride:])
	}
	return rows
}

// end ends the launch with the fake's verdict.
func (v *flight) end() {
	var err error
	if v.fake.verdict != nil {
		err = v.fake.verdict(v.rows)
	}
	v.endWith(err)
}

// endWith ends the launch with an error, or with scores. The rows must be what they were at the launch (I2).
func (v *flight) endWith(err error) {
	if now := rowsOf(v.batch); !slices.Equal(now, v.rows) {
		v.fake.t.Errorf("I2: rows changed from %v to %v while they were executed", v.rows, now)
	}
	if err == nil {
		for i, r := range v.rows {
			binary.LittleEndian.PutUint32(v.batch.Scores[4*i:], r+1000)
		}
	}
	v.fake.mu.Lock()
	v.fake.flying = slices.DeleteFunc(v.fake.flying, func(o *flight) bool { return o == v })
	v.fake.mu.Unlock()
	v.done(err)
}

// flight returns the i-th launch in flight, the oldest being 0.
func (f *fake) flight(i int) *flight {
	f.mu.Lock()
	defer f.mu.Unlock()
	if i >= len(f.flying) {
		f.t.Fatalf("want launch %d in flight, got %d launches", i, len(f.flying))
	}
	return f.flying[i]
}

// wantRows fails the test unless exactly these launches are in flight, oldest first.
func (f *fake) wantRows(want ...[]uint32) {
	f.t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	var got [][]uint32
	for _, v := range f.flying {
		got = append(got, v.rows)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		f.t.Fatalf("launches in flight: rows %v, want %v", got, want)
	}
}

// poison is a verdict that refuses every batch with the value in it.
func poison(value uint32, err error) func([]uint32) error {
	return func(rows []uint32) error {
		if slices.Contains(rows, value) {
			return err
		}
		return nil
	}
}

// fakeClock is a clock that stands still until it is moved.
type fakeClock struct {
	mu sync.Mutex
	t  time.Time
}

func (c *fakeClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *fakeClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}
