//go:build ringsim

package shmring

import (
	"encoding/binary"
	"fmt"
	"unsafe"
)

// simFrontend is a frontend process: clients that share one Frontend, and a goroutine that waits for the bell.
type simFrontend struct {
	w       *simWorld
	index   int
	proc    *process
	f       *Frontend
	gate    int // generation of the local gate for room
	running int // clients that are not finished
	started bool
}

func (p *simFrontend) main() {
	r := p.w.open(p.proc)
	f, err := r.Frontend(p.index, p.proc.number)
	if err != nil {
		p.w.sim.fail("%s: %v", p.proc.name, err)
		return
	}
	p.f = f
	n := p.w.sc.Clients
	if p.w.sc.Inline {
		n = 1
	}
	p.started, p.running = true, n
	if p.w.sc.Inline {
		if p.w.sc.Alone {
			p.w.sim.wait(func() bool { return p.w.armed }, 0, false)
		}
		p.client(0)
		return
	}
	for k := range n {
		p.w.sim.spawn(p.proc, fmt.Sprintf("%s/client%d", p.proc.name, k), func() { p.client(k) })
	}
	p.poll()
}

// poll is the goroutine that waits for the bell, as the loop of a real frontend does.
func (p *simFrontend) poll() {
	for {
		p.f.Poll()
		p.gate++
		p.w.waitBell(p.index)
	}
}

func (p *simFrontend) finished() bool {
	if !p.started || p.running > 0 {
		return false
	}
	for _, q := range p.w.requests {
		if q.proc == p.proc && q.left > 0 {
			return false
		}
	}
	return true
}

func (p *simFrontend) client(int) {
	n := p.w.sc.Requests
	if p.proc.number > 1 {
		n = 1
	}
	for range n {
		q := p.w.newRequest(p.proc)
		p.f.AddPendingRows(q.rows)
		p.send(q)
		if !p.w.sc.Ahead {
			p.await(q)
		}
	}
	for _, q := range p.w.requests {
		if q.proc == p.proc {
			p.await(q)
		}
	}
	p.running--
}

// send puts all rows of a request into slabs.
func (p *simFrontend) send(q *request) {
	for row := 0; row < q.rows; {
		n := min(q.rows-row, p.w.sc.Chunk)
		if p.w.sc.Whole {
			n = q.rows
		}
		v, ok := p.f.Reserve(n, p.w.sc.Whole, q, row)
		if !ok {
			seen := p.gate
			p.f.AnnounceSpace()
			v, ok = p.f.Reserve(n, p.w.sc.Whole, q, row)
			if !ok {
				p.waitRoom(seen)
				continue
			}
		}
		p.w.granted(&v, int(q.number))
		q.parts = append(q.parts, part{row, v.N})
		q.write(&v, row)
		row += v.N
		p.f.Commit(&v)
		p.w.sim.progressed()
		p.f.Poll()
	}
}

func (p *simFrontend) waitRoom(seen int) {
	if p.w.sc.Inline {
		p.f.Poll()
		p.w.waitBell(p.index)
		return
	}
	p.w.sim.wait(func() bool { return p.gate != seen }, 0, false)
}

func (p *simFrontend) await(q *request) {
	if !p.w.sc.Inline {
		p.w.sim.wait(func() bool { return q.left == 0 }, 0, false)
		return
	}
	for p.f.Poll(); q.left > 0; p.f.Poll() {
		p.w.waitBell(p.index)
	}
}

// request is a call that a frontend has accepted. It checks that each of its rows is answered once, by what was computed
// from it, while its process lives.
type request struct {
	w      *simWorld
	proc   *process
	number uint32
	rows   int
	left   int
	crash  bool // the device crashes on its first row
	parts  []part
}

// part is a reservation of a request.
type part struct{ first, rows int }

func (q *request) String() string {
	return fmt.Sprintf("request %d of %s: %d of %d rows to come", q.number, q.proc.name, q.left, q.rows)
}

func (w *simWorld) newRequest(p *process) *request {
	q := &request{w: w, proc: p, number: uint32(len(w.requests) + 1)}
	q.rows = 1 + int(mix(w.sc.Seed, uint64(q.number))%uint64(w.sc.MaxRows))
	q.left, q.crash = q.rows, int(q.number) == w.sc.Crash
	w.requests = append(w.requests, q)
	return q
}

// mix is a hash of two numbers (splitmix64).
func mix(a, b uint64) uint64 {
	z := a + b*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

const crashBit = 1 << 31

func (q *request) value(row int) uint32 {
	v := q.number<<8 | uint32(row)
	if q.crash && row == 0 {
		v |= crashBit
	}
	return v
}

// write fills reserved rows in two halves each, so that a row that is read too early is seen to be torn.
func (q *request) write(v *Reservation, first int) {
	a := v.Array(0)
	for i := range v.N {
		row := a[i*simStride:][:simStride]
		put(row, q.value(first+i))
		put(row[simStride-4:], ^q.value(first+i))
	}
}

// put and get are accesses to plain bytes at which others may come in between.
func put(b []byte, v uint32) {
	touch(unsafe.Pointer(&b[0]), true)
	binary.LittleEndian.PutUint32(b, v)
}

func get(b []byte) uint32 {
	touch(unsafe.Pointer(&b[0]), false)
	return binary.LittleEndian.Uint32(b)
}

// Complete is the oracle of deliveries.
func (q *request) Complete(tag int, scores []byte, status Status) {
	fail := func(format string, args ...any) {
		q.w.sim.fail("%s: part at row %d: %s (I3)", q, tag, fmt.Sprintf(format, args...))
	}
	if q.proc.dead || q.w.sim.current.proc != q.proc {
		fail("delivered in %s, its process is dead: %v", q.w.sim.current.proc.name, q.proc.dead)
	}
	n := -1
	for i, p := range q.parts {
		if p.first == tag {
			n = p.rows
			q.parts = append(q.parts[:i], q.parts[i+1:]...)
			break
		}
	}
	if n < 0 {
		fail("delivered twice or never reserved")
		return
	}
	q.w.sim.progressed()
	switch crashes := q.crash && tag == 0; {
	case status == StatusDeviceError && (crashes || q.w.murders >= maxTries):
	case status != StatusOK || crashes:
		fail("status %d", status)
	case len(scores) != 8*n:
		fail("%d bytes of scores for %d rows", len(scores), n)
	default:
		for i := range n {
			lo, hi := get(scores[8*i:]), get(scores[8*i+4:])
			if want := q.value(tag+i) + 1000; lo != want || hi != ^want {
				fail("row %d: score %#x %#x, want %#x %#x", tag+i, lo, hi, want, ^want)
			}
		}
	}
	if q.left -= n; q.left == 0 {
		q.w.frontends[q.proc.role].f.AddPendingRows(-q.rows)
	}
}

// simOwner is the device owner's process: the batch loop on one goroutine, the device on another.
type simOwner struct {
	w        *simWorld
	proc     *process
	actor    *actor
	o        *Owner
	queue    []int // closed, not launched
	launches []launch
	finished []launch
	inflight int
	running  map[int]bool // slabs in flight
	rerun    *simRerun
}

type launch struct {
	slab  int
	alone bool
	rows  []byte
	out   []byte
	n     int
}

type simRerun struct {
	slab    int
	entries []Entry
	next    int
	waiting bool
}

const maxTries = 2

func (l *simOwner) main() {
	r := l.w.open(l.proc)
	o, err := r.Owner(l.proc.number, l.w)
	if err != nil {
		l.w.sim.fail("%s: %v", l.proc.name, err)
		return
	}
	l.o, l.running = o, map[int]bool{}
	if !l.w.sc.Inline {
		l.w.sim.spawn(l.proc, l.proc.name+"/device", l.device)
	}
	for {
		if l.turn() {
			continue
		}
		l.park()
	}
}

func (l *simOwner) park() {
	acks, timeout := true, MaxPark
	for slab := range l.o.Slabs() {
		switch l.o.Phase(slab) {
		case PhaseOpen:
			acks = false
		case PhaseClosed:
			if l.o.InGrace(slab) {
				timeout = MaxPark / 4 // the end of a grace period rings no bell
			}
		}
	}
	l.o.Park(acks, timeout, l.turn)
}

func (l *simOwner) turn() bool {
	l.o.Beat()
	n := l.o.HandleDeaths()
	n += l.collect()
	n += l.o.Recycle()
	n += l.closeSlabs()
	n += l.openSlabs()
	n += l.launchReady()
	n += l.stepRerun()
	l.o.Stragglers(simStraggler)
	return n > 0
}

func (l *simOwner) closeSlabs() (n int) {
	for slab := range l.o.Slabs() {
		if l.o.Phase(slab) == PhaseOpen {
			rows := l.o.Rows(slab)
			if rows > 0 && (rows == l.w.sc.Capacity || l.w.sc.Whole || l.inflight+len(l.queue) < l.w.sc.Depth) {
				l.o.Close(slab)
			}
		}
		if l.o.Phase(slab) == PhaseClosed && !l.queued(slab) {
			l.queue = append(l.queue, slab)
			n++
		}
	}
	return n
}

func (l *simOwner) queued(slab int) bool {
	for _, s := range l.queue {
		if s == slab {
			return true
		}
	}
	return l.running[slab] || l.rerun != nil && l.rerun.slab == slab
}

func (l *simOwner) openSlabs() (n int) {
	open := 0
	for slab := range l.o.Slabs() {
		if l.o.Phase(slab) == PhaseOpen {
			open++
		}
	}
	for open == 0 || l.w.sc.Whole {
		if _, ok := l.o.Open(); !ok {
			break
		}
		open++
		n++
	}
	return n
}

func (l *simOwner) launchReady() (n int) {
	for i := 0; i < len(l.queue) && l.inflight < l.w.sc.Depth; {
		slab := l.queue[i]
		if !l.o.Ready(slab) || l.o.Attempts(slab) > 0 && l.rerun != nil {
			i++
			continue
		}
		l.queue = append(l.queue[:i], l.queue[i+1:]...)
		n++
		switch {
		case l.o.Attempts(slab) > 0:
			l.rerun = &simRerun{slab: slab, entries: l.o.Entries(slab)}
		case l.o.Committed(slab) == 0:
			l.o.Complete(slab, StatusOK)
		default:
			rows := l.o.Rows(slab)
			l.o.Begin(slab)
			l.start(launch{slab: slab, rows: l.o.Array(slab, 0, 0, rows), out: l.o.Scores(slab, 0, rows), n: rows})
		}
	}
	return n
}

func (l *simOwner) stepRerun() int {
	r := l.rerun
	if r == nil || r.waiting || l.inflight >= l.w.sc.Depth {
		return 0
	}
	for ; r.next < len(r.entries); r.next++ {
		e := r.entries[r.next]
		_, finished, tries := l.o.Alone(r.slab, e.Start)
		if finished {
			continue
		}
		if tries >= maxTries {
			l.o.FinishAlone(r.slab, e.Start, StatusDeviceError)
			continue
		}
		r.waiting = true
		l.o.BeginAlone(r.slab, e.Start)
		l.start(launch{
			slab: r.slab, alone: true, n: e.Rows,
			rows: l.o.Array(r.slab, 0, e.Start, e.Rows), out: l.o.Scores(r.slab, e.Start, e.Rows),
		})
		return 1
	}
	l.rerun = nil
	l.o.CompleteAlone(r.slab)
	return 1
}

func (l *simOwner) start(v launch) {
	l.w.sim.progressed()
	l.running[v.slab] = true
	l.inflight++
	if l.w.sc.Inline {
		l.execute(v)
		l.finished = append(l.finished, v)
		return
	}
	l.launches = append(l.launches, v)
}

func (l *simOwner) collect() (n int) {
	for ; len(l.finished) > 0; n++ {
		v := l.finished[0]
		l.finished = l.finished[1:]
		l.inflight--
		delete(l.running, v.slab)
		if v.alone {
			r := l.rerun
			l.o.FinishAlone(r.slab, r.entries[r.next].Start, StatusOK)
			r.waiting = false
			r.next++
			continue
		}
		l.o.Complete(v.slab, StatusOK)
	}
	return n
}

// device executes what was launched, in order.
func (l *simOwner) device() {
	for {
		l.w.sim.wait(func() bool { return len(l.launches) > 0 }, 0, false)
		v := l.launches[0]
		l.launches = l.launches[1:]
		l.execute(v)
		l.finished = append(l.finished, v)
		l.o.Wake()
	}
}

// execute computes the scores of rows. It crashes on a row that carries the bit for it. Void rows hold anything.
func (l *simOwner) execute(v launch) {
	for i := range v.n {
		row := v.rows[i*simStride:][:simStride]
		lo, hi := get(row), get(row[simStride-4:])
		score := lo + 1000
		if hi != ^lo {
			score = 0xbadbadba // torn
		} else if lo&crashBit != 0 {
			l.proc.crashed = true
			l.w.sim.kill(l.proc)
			l.w.sim.point()
		}
		put(v.out[8*i:], score)
		put(v.out[8*i+4:], ^score)
	}
	l.w.sim.progressed()
}
