package tables

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"rankd/internal/procmem"
	"rankd/internal/testutil"
	"rankd/model"
)

// twice are two copies; their nodes are the one that every machine has.
var twice = []Copy{{Label: "nodes0", Nodes: []int{0}}, {Label: "nodes0_0", Nodes: []int{0, 0}}}

func names(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func loadedOf(list []*Segment) (loaded []bool) {
	for _, s := range list {
		loaded = append(loaded, s.Loaded)
	}
	return loaded
}

func closeSegments(t *testing.T, list []*Segment) {
	t.Helper()
	for _, s := range list {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestI1CopiesHaveTheSameBytesAndAreAttachedAgain(t *testing.T) {
	b, ctx := makeBundle(t, t4), context.Background()
	o := Options{Instance: testutil.Instance(t), Dir: shmDir(t)}
	first, err := Acquire(ctx, b, o, twice...)
	if err != nil {
		t.Fatal(err)
	}
	sums := map[uint32]bool{}
	for i, s := range first {
		if !s.Loaded || !strings.HasSuffix(s.Path, "."+twice[i].Label) {
			t.Errorf("copy %d: got %s, loaded %v, want it made, with %s at its end", i, s.Path, s.Loaded, twice[i].Label)
		}
		set := attach(t, int(s.FD().Fd()), b.Manifest)
		sums[set.Checksum()] = true
		for table := range t4 {
			at := set.layout.tables[table].offset
			if got, want := float(set.mem[at+999*int64(set.layout.tables[table].stride):], 0), value(table, 999, 0); got != want {
				t.Errorf("copy %d, table %d, row 999: got %v, want %v", i, table, got, want)
			}
		}
		nodes, err := s.Nodes()
		if errors.Is(err, procmem.ErrNoNUMA) {
			continue // no NUMA in this kernel
		}
		if total := s.Info().Bytes; err != nil || nodes[0] != total {
			t.Errorf("copy %d: got %v, %v, want all of %d bytes on node 0", i, nodes, err, total)
		}
	}
	if len(sums) != 1 {
		t.Errorf("got %d different checksums, want one", len(sums))
	}
	closeSegments(t, first)

	again, err := Acquire(ctx, b, o, twice...)
	if err != nil || !slices.Equal(loadedOf(again), []bool{false, false}) {
		t.Fatalf("again: got %v, %v, want both attached", loadedOf(again), err)
	}
	lost := again[0].Path
	closeSegments(t, again)
	if err := os.Remove(lost); err != nil {
		t.Fatal(err)
	}
	mended, err := Acquire(ctx, b, o, twice...)
	if err != nil || !slices.Equal(loadedOf(mended), []bool{true, false}) {
		t.Fatalf("with one lost: got %v, %v, want that one made", loadedOf(mended), err)
	}
	if x, y := attach(t, int(mended[0].FD().Fd()), b.Manifest).Checksum(), attach(t, int(mended[1].FD().Fd()), b.Manifest).Checksum(); x != y {
		t.Errorf("got checksums %x and %x, want them equal", x, y)
	}
	closeSegments(t, mended)
}

func TestCopiesOfAnotherPlacementAreReclaimed(t *testing.T) {
	b, ctx := makeBundle(t, t4[:1]), context.Background()
	o := Options{Instance: testutil.Instance(t), Dir: shmDir(t)}
	for _, copies := range [][]Copy{{{}}, twice, twice[:1], twice[1:], {{}}} {
		if _, err := Reclaim(ctx, o, b.Manifest.TablesDigest(), copies...); err != nil {
			t.Fatal(err)
		}
		list, err := Acquire(ctx, b, o, copies...)
		if err != nil {
			t.Fatal(err)
		}
		closeSegments(t, list)
		var want []string
		for _, c := range copies {
			want = append(want, SegmentName(o.Instance, b.Manifest.TablesDigest(), c))
		}
		slices.Sort(want)
		if got := names(t, o.Dir); !slices.Equal(got, want) {
			t.Errorf("got files %v, want %v", got, want)
		}
	}
}

func TestCopyThatCannotBeMadeLeavesNothing(t *testing.T) {
	b := makeBundle(t, t4)
	t.Run("no room on a node", func(t *testing.T) {
		none, loaded := errors.New("node 1 is full"), false
		o := Options{Instance: testutil.Instance(t), Dir: shmDir(t), afterChunk: func() { loaded = true }, Room: func(c Copy) error {
			if c.Label == twice[1].Label {
				return none
			}
			return nil
		}}
		if _, err := Acquire(context.Background(), b, o, twice...); !errors.Is(err, none) || loaded {
			t.Errorf("got %v, loaded %v, want %v before anything is loaded", err, loaded, none)
		}
		wantEmpty(t, o.Dir)
	})
	t.Run("stopped in the second copy", func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		var dir string
		var o Options
		o = Options{Instance: testutil.Instance(t), Dir: shmDir(t), Workers: 1, chunkBytes: 4096, afterChunk: func() {
			if _, err := os.Stat(filepath.Join(dir, SegmentName(o.Instance, b.Manifest.TablesDigest(), twice[1]))); err == nil {
				cancel()
			}
		}}
		dir = o.Dir
		if _, err := Acquire(ctx, b, o, twice...); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want %v", err, context.Canceled)
		}
		wantEmpty(t, dir)
	})
}

func TestProgressOfSeveralCopiesGoesUpToAllOfThem(t *testing.T) {
	b := makeBundle(t, t4)
	var last, total atomic.Int64
	o := Options{Instance: testutil.Instance(t), Dir: shmDir(t), Progress: func(done, all int64) {
		if done < last.Load() {
			t.Errorf("progress goes back from %d to %d", last.Load(), done)
		}
		last.Store(done)
		total.Store(all)
	}}
	list, err := Acquire(context.Background(), b, o, twice...)
	if err != nil {
		t.Fatal(err)
	}
	closeSegments(t, list)
	if want := 2 * bytesOf(b); last.Load() != want || total.Load() != want {
		t.Errorf("got %d of %d at the end, want %d", last.Load(), total.Load(), want)
	}
}

func bytesOf(b *model.Bundle) (n int64) {
	l, _ := layoutOf(b.Manifest)
	return l.dataBytes()
}
