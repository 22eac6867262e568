package shmring

import (
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// chanBells is a set of doorbells inside one process.
type chanBells []chan struct{}

func newChanBells(n int) chanBells {
	b := make(chanBells, n)
	for i := range b {
		b[i] = make(chan struct{}, 1)
	}
	return b
}

func (b chanBells) Ring(i int) {
	select {
	case b[i] <- struct{}{}:
	default:
	}
}

// call checks that each of its rows gets its own score, exactly once.
type call struct {
	t     *testing.T
	first uint32
	seen  []atomic.Int32
	left  atomic.Int32
	done  chan struct{}
}

func (c *call) Complete(tag int, scores []byte, status Status) {
	if status != StatusOK {
		c.t.Errorf("row %d: status %d", tag, status)
	}
	n := len(scores) / 4
	for i := range n {
		if got, want := binary.LittleEndian.Uint32(scores[4*i:]), c.first+uint32(tag+i)+1000; got != want {
			c.t.Errorf("row %d: score %d, want %d", tag+i, got, want)
		}
		if c.seen[tag+i].Add(1) != 1 {
			c.t.Errorf("row %d delivered twice", tag+i)
		}
	}
	if c.left.Add(int32(-n)) == 0 {
		close(c.done)
	}
}

// stressOwner closes, executes and recycles until stop is closed and everything is at rest.
func stressOwner(o *Owner, stop <-chan struct{}) {
	var queue []int
	turn := func() bool {
		progress := o.HandleDeaths() + o.Recycle()
		open := false
		for slab := range o.Slabs() {
			if o.Phase(slab) == PhaseOpen && o.Rows(slab) > 0 {
				o.Close(slab)
				queue = append(queue, slab)
				progress++
			}
			open = open || o.Phase(slab) == PhaseOpen
		}
		if !open {
			if _, ok := o.Open(); ok {
				progress++
			}
		}
		for i := 0; i < len(queue); {
			if slab := queue[i]; o.Ready(slab) {
				o.Begin(slab)
				score(o, slab)
				o.Complete(slab, StatusOK)
				queue = append(queue[:i], queue[i+1:]...)
				progress++
			} else {
				i++
			}
		}
		return progress > 0
	}
	for {
		select {
		case <-stop:
			return
		default:
			if !turn() {
				o.Park(true, MaxPark, turn)
			}
		}
	}
}

// stressFrontend scores calls of random sizes, one after the other.
func stressFrontend(t *testing.T, f *Frontend, bell <-chan struct{}, seed, base uint64, calls int) {
	rng := rand.New(rand.NewPCG(seed, base))
	for k := range calls {
		n := 1 + rng.IntN(3*f.r.g.ChunkRows)
		c := &call{t: t, first: uint32(base) + uint32(k)<<8, seen: make([]atomic.Int32, n), done: make(chan struct{})}
		c.left.Store(int32(n))
		for row := 0; row < n; {
			want := min(f.r.g.ChunkRows, n-row)
			v, ok := f.Reserve(want, false, c, row)
			if !ok {
				f.AnnounceSpace()
				if v, ok = f.Reserve(want, false, c, row); !ok {
					wait(bell)
					f.Poll()
					continue
				}
			}
			write(&v, c.first+uint32(row))
			row += v.N
			f.Commit(&v)
			f.Poll()
		}
		for !finished(c) {
			wait(bell)
			f.Poll()
		}
	}
}

func finished(c *call) bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

func wait(bell <-chan struct{}) {
	timer := time.NewTimer(MaxPark / 10)
	defer timer.Stop()
	select {
	case <-bell:
	case <-timer.C:
	}
}

// TestManyWritersGetTheirOwnScores runs all roles at once on the Go heap, where the race detector sees every byte.
func TestManyWritersGetTheirOwnScores(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	g := Geometry{Slabs: 4, Capacity: 16, ChunkRows: 5, Strides: []int{64}, ScoreBytes: 4, Frontends: 3, Writers: 2}
	r := format(t, g)
	bells := newChanBells(g.Frontends)
	o, err := r.Owner(1, bells)
	if err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	ended := make(chan struct{})
	go func() { defer close(ended); stressOwner(o, stop) }()
	var wg sync.WaitGroup
	for i := range g.Frontends {
		f, err := r.Frontend(i, 1)
		if err != nil {
			t.Fatal(err)
		}
		for w := range 4 { // more goroutines than writer tokens
			wg.Add(1)
			go func() {
				defer wg.Done()
				stressFrontend(t, f, bells[i], seed, uint64(i*4+w)<<24, 150)
			}()
		}
	}
	wg.Wait()
	close(stop)
	o.Wake()
	<-ended
	o.Recycle()
	mustBeSound(t, r, true)
}
