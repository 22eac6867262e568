package shmring

import (
	"fmt"
	"time"
)

// Region is a view of the shared memory: the same bytes in every process, one Region a process. All methods are safe for
// concurrent use; roles (Frontend, Owner, Supervisor) are taken from it.
type Region struct {
	mem []byte
	g   Geometry
	l   layout

	// Sleep is how an actor waits on a word and wakes another; nil means the futex of the kernel.
	// Set it before a role is taken.
	Sleep Sleeper
	// OnCorrupt is called with an error that wraps ErrCorrupt when a shared word can't be right. It must not return:
	// a process's main function sets it to log and exit. The default panics.
	OnCorrupt func(error)
}

// Format writes a fresh region into mem and returns it. The memory must be zero and belong to nobody else yet.
// All slabs are free; the owner opens the first one.
func Format(mem []byte, g Geometry) (*Region, error) {
	if err := g.Validate(); err != nil {
		return nil, fmt.Errorf("format region: %w", err)
	}
	if n := g.Bytes(); len(mem) < n {
		return nil, fmt.Errorf("format region: got %d bytes, want %d: %w", len(mem), n, ErrSize)
	}
	if !aligned(mem) {
		return nil, fmt.Errorf("format region: memory is not aligned to 64 bytes: %w", ErrSize)
	}
	r := newRegion(mem, g)
	h := r.header()
	h.version = version
	h.checksum = g.checksum()
	h.slabs, h.capacity, h.chunkRows = uint32(g.Slabs), uint32(g.Capacity), uint32(g.ChunkRows)
	h.arrays, h.scoreBytes = uint32(len(g.Strides)), uint32(g.ScoreBytes)
	h.frontends, h.writers = uint32(g.Frontends), uint32(g.Writers)
	for i, s := range g.Strides {
		h.strides[i] = uint32(s)
	}
	for i := range g.Slabs {
		s := r.slabControl(i)
		s.state.Store(uint64(packState(firstEpoch, true, 0)))
		s.committed.Store(uint64(packCount(firstEpoch, 0)))
		s.done.Store(firstEpoch)
		s.recycled.Store(firstEpoch)
	}
	h.magic.Store(magic) // SYNC(format): pairs with Open
	return r, nil
}

// Open checks the header of a formatted region and returns a view of it.
// Errors wrap ErrSize, ErrMagic, ErrVersion or ErrChecksum.
func Open(mem []byte) (*Region, error) {
	if len(mem) < headerBytes || !aligned(mem) {
		return nil, fmt.Errorf("open region: got %d bytes, want at least %d, aligned to 64: %w", len(mem), headerBytes, ErrSize)
	}
	h := (&Region{mem: mem}).header()
	if m := h.magic.Load(); m != magic { // SYNC(format): pairs with Format
		return nil, fmt.Errorf("open region: magic %#x, want %#x: %w", m, uint64(magic), ErrMagic)
	}
	if h.version != version {
		return nil, fmt.Errorf("open region: layout version %d, want %d: %w", h.version, version, ErrVersion)
	}
	g := Geometry{
		Slabs: int(h.slabs), Capacity: int(h.capacity), ChunkRows: int(h.chunkRows), ScoreBytes: int(h.scoreBytes),
		Frontends: int(h.frontends), Writers: int(h.writers),
	}
	arrays, strides := int(h.arrays), h.strides
	if arrays > MaxArrays {
		return nil, fmt.Errorf("open region: %d packed arrays, want at most %d: %w", arrays, MaxArrays, ErrChecksum)
	}
	for _, s := range strides[:arrays] {
		g.Strides = append(g.Strides, int(s))
	}
	if got, want := h.checksum, g.checksum(); got != want {
		return nil, fmt.Errorf("open region: header checksum %#x, want %#x: %w", got, want, ErrChecksum)
	}
	if err := g.Validate(); err != nil {
		return nil, fmt.Errorf("open region: %w: %w", err, ErrChecksum)
	}
	if n := g.Bytes(); len(mem) < n {
		return nil, fmt.Errorf("open region: got %d bytes, want %d: %w", len(mem), n, ErrSize)
	}
	return newRegion(mem, g), nil
}

func newRegion(mem []byte, g Geometry) *Region {
	return &Region{mem: mem, g: g, l: g.layout()}
}

// Geometry returns the sizes that the region was formatted with.
func (r *Region) Geometry() Geometry { return r.g }

// LayoutVersion is the version of the layout that this binary reads and writes.
const LayoutVersion = version

func (r *Region) sleeper() Sleeper {
	if r.Sleep != nil {
		return r.Sleep
	}
	return futex{}
}

func (r *Region) corrupt(format string, args ...any) {
	err := fmt.Errorf(format+": %w", append(args, ErrCorrupt)...)
	if r.OnCorrupt != nil {
		r.OnCorrupt(err)
	}
	panic(err)
}

// array returns the bytes of packed array a of a slab, rows [first, first+n).
func (r *Region) array(slab, a, first, n int) []byte {
	s := r.g.Strides[a]
	at := r.l.slabs + slab*r.l.slabBytes + r.l.arrays[a]
	return r.mem[at+first*s : at+(first+n)*s : at+(first+n)*s]
}

// SlabMemory returns the memory of all slabs, for a device that may prepare it for transfers. Nobody reads or writes it through
// this slice.
func (r *Region) SlabMemory() []byte { return r.mem[r.l.slabs:r.l.total:r.l.total] }

// scores returns the score bytes of rows [first, first+n) of a slab.
func (r *Region) scores(slab, first, n int) []byte {
	s := r.g.ScoreBytes
	at := r.l.slabs + slab*r.l.slabBytes + r.l.scores
	return r.mem[at+first*s : at+(first+n)*s : at+(first+n)*s]
}

func (r *Region) entries(slab int) []word64 { return r.wordTable(slab, r.l.entries) }
func (r *Region) results(slab int) []word64 { return r.wordTable(slab, r.l.results) }

// deadFrontend reports whether the supervisor has reaped the incarnation that claimed the block last.
func (r *Region) deadFrontend(i int) bool {
	return claimWord(r.frontendBlock(i).claim.Load()).incarnation() == r.header().dead[i].Load()
}

// TotalPendingRows returns the admitted and unanswered rows of all live frontends. It is a sum of words that change
// meanwhile: a check against it can overshoot by one request a frontend.
func (r *Region) TotalPendingRows() int64 {
	var sum int64
	for i := range r.g.Frontends {
		if !r.deadFrontend(i) {
			sum += max(r.frontendBlock(i).pendingRows.Load(), 0)
		}
	}
	return sum
}

// OwnerState is what the supervisor knows of the device owner.
type OwnerState uint32

// The states of the device owner.
const (
	OwnerStarting   OwnerState = iota // never ready yet
	OwnerUp                           // executes batches
	OwnerRestarting                   // died and is started again at once
	OwnerBackoff                      // dies before it is ready: calls are refused meanwhile
)

func (s OwnerState) String() string {
	switch s {
	case OwnerStarting:
		return "starting"
	case OwnerUp:
		return "up"
	case OwnerRestarting:
		return "restarting"
	case OwnerBackoff:
		return "backing off"
	}
	return "unknown"
}

// OwnerState returns the state that the supervisor stored last.
func (r *Region) OwnerState() OwnerState { return OwnerState(r.header().supervisor.ownerState.Load()) }

// Draining reports whether the supervisor asked for no new requests.
func (r *Region) Draining() bool { return r.header().supervisor.draining.Load() != 0 }

// MaxPark bounds every wait on another process: a peer may die between its store and its wake-up.
const MaxPark = 100 * time.Millisecond
