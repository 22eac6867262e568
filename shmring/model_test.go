package shmring

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// ringModel says in plain slices what the words of a region must say. One thread drives both; after each operation they
// are compared.
type ringModel struct {
	t     *testing.T
	r     *Region
	o     *Owner
	s     *Supervisor
	f     []*Frontend
	bells rings

	ownerInc uint32
	incs     []uint32
	slabs    []modelSlab
	held     []*modelPart // reserved, not committed
	values   uint32
}

type modelSlab struct {
	phase   Phase
	seen    Phase // by the owner: it may not know yet that a frontend has closed the slab
	rows    int
	parts   []*modelPart
	pending map[int]bool
	grace   bool                // void rows are possible
	waits   map[*modelPart]bool // what the grace period waits for; nil: it has not begun
}

type modelPart struct {
	v         Reservation
	frontend  int
	value     uint32
	committed bool
	dead      bool
	box       *box
}

func newRingModel(t *testing.T) *ringModel {
	g := Geometry{Slabs: 3, Capacity: 5, ChunkRows: 3, Strides: []int{64}, ScoreBytes: 4, Frontends: 2, Writers: 2}
	m := &ringModel{t: t, r: format(t, g), incs: make([]uint32, g.Frontends), f: make([]*Frontend, g.Frontends), slabs: make([]modelSlab, g.Slabs)}
	for i := range m.slabs {
		m.slabs[i].pending = map[int]bool{}
	}
	m.s = m.r.Supervisor(&m.bells)
	m.startOwner()
	for i := range m.f {
		m.startFrontend(i)
	}
	return m
}

func (m *ringModel) startOwner() {
	m.ownerInc++
	var err error
	if m.o, err = m.r.Owner(m.ownerInc, &m.bells); err != nil {
		m.t.Fatal(err)
	}
}

func (m *ringModel) startFrontend(i int) {
	m.incs[i]++
	var err error
	if m.f[i], err = m.r.Frontend(i, m.incs[i]); err != nil {
		m.t.Fatal(err)
	}
}

// do performs one operation, chosen by two bytes.
func (m *ringModel) do(op, arg byte) string {
	frontend, slab := int(arg)%len(m.f), int(arg)%len(m.slabs)
	switch op % 16 {
	case 0, 1:
		return m.open()
	case 2, 3, 4, 5:
		return m.reserve(frontend, 1+int(arg>>1)%m.r.g.ChunkRows, false)
	case 6:
		return m.reserve(frontend, 1+int(arg>>1)%m.r.g.Capacity, true)
	case 7, 8, 9:
		return m.commit(int(arg))
	case 10:
		return m.close(slab)
	case 11, 12:
		return m.complete(slab)
	case 13:
		return m.poll(frontend) + m.poll(1-frontend)
	case 14:
		return m.recycle()
	default:
		if arg%3 == 0 {
			return m.killOwner()
		}
		return m.killFrontend(frontend)
	}
}

func (m *ringModel) open() string {
	slab, ok := m.o.Open()
	free := false
	for i := range m.slabs {
		free = free || m.slabs[i].phase == PhaseFree
	}
	if ok != free {
		m.t.Fatalf("open: got %v with a free slab %v", ok, free)
	}
	if ok {
		if m.slabs[slab].phase != PhaseFree {
			m.t.Fatalf("open: got slab %d, which is %s", slab, m.slabs[slab].phase)
		}
		m.slabs[slab] = modelSlab{phase: PhaseOpen, seen: PhaseOpen, pending: map[int]bool{}}
	}
	return fmt.Sprintf("open: %d %v", slab, ok)
}

func (m *ringModel) reserve(i, n int, whole bool) string {
	busy := 0
	for _, p := range m.held {
		if p.frontend == i {
			busy++
		}
	}
	if busy == m.r.g.Writers {
		return "reserve: no writer token"
	}
	m.values += 100
	p := &modelPart{frontend: i, value: m.values, box: &box{}}
	v, ok := m.f[i].Reserve(n, whole, p.box, int(p.value))
	possible := false
	for k := range m.slabs {
		s := &m.slabs[k]
		possible = possible || s.phase == PhaseOpen && s.rows < m.r.g.Capacity && (!whole || s.rows == 0)
	}
	if ok != possible {
		m.t.Fatalf("reserve %d rows, whole %v: got %v, want %v", n, whole, ok, possible)
	}
	if !ok {
		return "reserve: no room"
	}
	s := &m.slabs[v.slab]
	if want := min(n, m.r.g.Capacity-s.rows); s.phase != PhaseOpen || v.start != s.rows || v.N != want {
		m.t.Fatalf("reserve %d rows: got %d from %d in slab %d (%s, %d rows)", n, v.N, v.start, v.slab, s.phase, s.rows)
	}
	p.v = v
	s.rows += v.N
	s.parts = append(s.parts, p)
	s.pending[i] = true
	if whole {
		s.phase = PhaseClosed
	}
	m.held = append(m.held, p)
	return fmt.Sprintf("reserve: %d rows of slab %d for %d", v.N, v.slab, i)
}

func (m *ringModel) commit(k int) string {
	if len(m.held) == 0 {
		return "commit: nothing"
	}
	k %= len(m.held)
	p := m.held[k]
	m.held = append(m.held[:k:k], m.held[k+1:]...)
	write(&p.v, p.value)
	m.f[p.frontend].Commit(&p.v)
	p.committed = true
	return fmt.Sprintf("commit: slab %d row %d", p.v.slab, p.v.start)
}

func (m *ringModel) close(slab int) string {
	s := &m.slabs[slab]
	if s.seen != PhaseOpen {
		return "close: not open"
	}
	if got := m.o.Close(slab); got != s.rows {
		m.t.Fatalf("close slab %d: got %d rows, want %d", slab, got, s.rows)
	}
	s.phase, s.seen = PhaseClosed, PhaseClosed
	return fmt.Sprintf("close: slab %d", slab)
}

// ready says whether all rows are committed, or a grace period that began at the first look is over.
func (m *ringModel) ready(s *modelSlab) bool {
	committed := 0
	for _, p := range s.parts {
		if p.committed {
			committed += p.v.N
		}
	}
	if committed == s.rows {
		return true
	}
	if !s.grace {
		return false
	}
	if s.waits == nil {
		s.waits = map[*modelPart]bool{}
		for _, p := range m.held {
			s.waits[p] = true
		}
	}
	for p := range s.waits {
		if !p.committed && !p.dead {
			return false
		}
	}
	return true
}

func (m *ringModel) complete(slab int) string {
	s := &m.slabs[slab]
	if s.seen != PhaseClosed {
		return "complete: not closed"
	}
	got, want := m.o.Ready(slab), m.ready(s)
	if got != want {
		m.t.Fatalf("slab %d: ready %v, want %v", slab, got, want)
	}
	if !got {
		return "complete: not ready"
	}
	m.o.Begin(slab)
	score(m.o, slab)
	m.o.Complete(slab, StatusOK)
	s.phase, s.seen = PhaseDone, PhaseDone
	return fmt.Sprintf("complete: slab %d", slab)
}

func (m *ringModel) poll(i int) string {
	want := 0
	for k := range m.slabs {
		if s := &m.slabs[k]; s.phase == PhaseDone {
			for _, p := range s.parts {
				if p.frontend == i && !p.dead && s.pending[i] {
					want++
				}
			}
		}
	}
	if got := m.f[i].Poll(); got != want {
		m.t.Fatalf("poll of %d: got %d deliveries, want %d", i, got, want)
	}
	for k := range m.slabs {
		s := &m.slabs[k]
		if s.phase != PhaseDone {
			continue
		}
		for _, p := range s.parts {
			if p.frontend == i && !p.dead && s.pending[i] {
				wantDelivery(m.t, p.box, int(p.value), p.value+1000, p.v.N)
			}
		}
		delete(s.pending, i)
	}
	return fmt.Sprintf("poll: %d of %d. ", want, i)
}

func (m *ringModel) recycle() string {
	want := 0
	for k := range m.slabs {
		if s := &m.slabs[k]; s.phase == PhaseDone && len(s.pending) == 0 {
			s.phase, s.seen = PhaseFree, PhaseFree
			want++
		}
	}
	if got := m.o.Recycle(); got != want {
		m.t.Fatalf("recycle: got %d, want %d", got, want)
	}
	return fmt.Sprintf("recycle: %d", want)
}

// killFrontend kills a frontend wherever it is between its calls, and starts the next incarnation.
func (m *ringModel) killFrontend(i int) string {
	m.s.MarkDead(i, m.incs[i])
	if got := m.o.HandleDeaths(); got != 1 {
		m.t.Fatalf("handle the death of %d: got %d", i, got)
	}
	var held []*modelPart
	for _, p := range m.held {
		if p.frontend != i {
			held = append(held, p)
		}
	}
	m.held = held
	for k := range m.slabs {
		s := &m.slabs[k]
		if s.seen == PhaseOpen && s.rows > 0 {
			s.phase, s.seen = PhaseClosed, PhaseClosed
		}
		if s.seen == PhaseClosed {
			s.grace = true
		}
		for _, p := range s.parts {
			p.dead = p.dead || p.frontend == i
		}
		delete(s.pending, i)
	}
	m.startFrontend(i)
	return fmt.Sprintf("kill: frontend %d", i)
}

func (m *ringModel) killOwner() string {
	m.s.MarkOwnerDead(m.ownerInc)
	m.startOwner()
	m.o.HandleDeaths()
	for k := range m.slabs {
		s := &m.slabs[k]
		if s.seen = s.phase; s.phase == PhaseClosed {
			s.grace, s.waits = true, nil
		}
	}
	return "kill: owner"
}

func (m *ringModel) compare() {
	view := m.r.View()
	for k := range m.slabs {
		s, got := &m.slabs[k], view.Slabs[k]
		committed, pending := 0, uint64(0)
		for _, p := range s.parts {
			if p.committed {
				committed += p.v.N
			}
		}
		for i := range s.pending {
			pending |= 1 << i
		}
		if got.Phase != s.phase || m.o.Phase(k) != s.seen {
			m.t.Fatalf("slab %d is %s, %s for the owner, want %s, %s", k, got.Phase, m.o.Phase(k), s.phase, s.seen)
		}
		if s.phase == PhaseFree {
			continue // its other words are the last life's
		}
		if got.Reserved != s.rows || got.Committed != committed || got.Pending != pending || got.Entries != len(s.parts) || got.CommitSeen != committed {
			m.t.Fatalf("slab %d: %+v, want %d rows, %d committed, pending %#x, %d entries", k, got, s.rows, committed, pending, len(s.parts))
		}
	}
	for _, line := range m.r.Check(false) {
		m.t.Fatalf("check: %s", line)
	}
}

// driveModel runs pairs of bytes as operations.
func driveModel(t *testing.T, ops []byte) {
	m := newRingModel(t)
	defer func() {
		if e := recover(); e != nil {
			t.Fatalf("panic: %v", e)
		}
	}()
	for ; len(ops) >= 2; ops = ops[2:] {
		said := m.do(ops[0], ops[1])
		if testing.Verbose() {
			t.Log(said)
		}
		m.compare()
	}
}

func TestWordsFollowTheModel(t *testing.T) {
	const runs, length = 30, 4000
	rng := rand.New(rand.NewPCG(3, 5))
	ops := make([]byte, 2*length)
	for run := range runs {
		for i := range ops {
			ops[i] = byte(rng.Uint32())
		}
		if !t.Run(fmt.Sprint(run), func(t *testing.T) { driveModel(t, ops) }) {
			return
		}
	}
}

func FuzzWordsFollowTheModel(f *testing.F) {
	f.Add([]byte("\x00\x00\x02\x00\x07\x00\x0a\x00\x0b\x00\x0d\x00\x0e\x00"))
	f.Add([]byte("\x00\x00\x02\x00\x02\x01\x07\x00\x0f\x01\x0b\x00\x07\x00\x0b\x00\x0d\x00\x0e\x00"))
	f.Fuzz(func(t *testing.T, ops []byte) {
		driveModel(t, ops[:min(len(ops), 2000)])
	})
}
