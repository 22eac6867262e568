package shmring

import (
	"encoding/binary"
	"errors"
	"testing"
	"time"
)

// rings counts rings and forgets them: the tests look at state, not at wake-ups.
type rings struct{ n [MaxFrontends]int }

func (r *rings) Ring(i int) { r.n[i]++ }

// box is a Completion that keeps what it was given.
type box struct {
	got []delivery
}

type delivery struct {
	tag    int
	scores []uint32
	status Status
}

func (b *box) Complete(tag int, scores []byte, status Status) {
	d := delivery{tag: tag, status: status}
	for ; len(scores) > 0; scores = scores[4:] {
		d.scores = append(d.scores, binary.LittleEndian.Uint32(scores))
	}
	b.got = append(b.got, d)
}

// trio is a region with its three roles taken.
type trio struct {
	r     *Region
	o     *Owner
	f     []*Frontend
	s     *Supervisor
	bells *rings
}

func newTrio(t testing.TB, g Geometry) *trio {
	t.Helper()
	v := &trio{r: format(t, g), bells: &rings{}}
	v.s = v.r.Supervisor(v.bells)
	var err error
	if v.o, err = v.r.Owner(1, v.bells); err != nil {
		t.Fatal(err)
	}
	for i := range g.Frontends {
		f, err := v.r.Frontend(i, 1)
		if err != nil {
			t.Fatal(err)
		}
		v.f = append(v.f, f)
	}
	return v
}

// write fills the rows of a reservation with value, value+1, ….
func write(v *Reservation, value uint32) {
	a := v.Array(0)
	for i := range v.N {
		binary.LittleEndian.PutUint32(a[i*len(a)/v.N:], value+uint32(i))
	}
}

// score computes row value + 1000 for every row of a slab, as an executor would.
func score(o *Owner, slab int) {
	n := o.Rows(slab)
	rows, out := o.Array(slab, 0, 0, n), o.Scores(slab, 0, n)
	for i := range n {
		binary.LittleEndian.PutUint32(out[4*i:], binary.LittleEndian.Uint32(rows[i*64:])+1000)
	}
}

func mustReserve(t testing.TB, f *Frontend, n int, c Completion, tag int) Reservation {
	t.Helper()
	v, ok := f.Reserve(n, false, c, tag)
	if !ok {
		t.Fatalf("reserve %d rows: no room", n)
	}
	return v
}

func mustBeSound(t testing.TB, r *Region, atRest bool) {
	t.Helper()
	for _, line := range r.Check(atRest) {
		t.Errorf("check: %s", line)
	}
}

func TestI3ScoresReachTheReservationThatWroteTheRows(t *testing.T) {
	v := newTrio(t, smallGeometry())
	slab, ok := v.o.Open()
	if !ok {
		t.Fatal("no free slab")
	}
	var a, b box
	r1 := mustReserve(t, v.f[0], 3, &a, 7)
	r2 := mustReserve(t, v.f[1], 4, &b, 8)
	write(&r2, 200)
	write(&r1, 100)
	v.f[1].Commit(&r2)
	if v.o.Close(slab) != 7 {
		t.Fatalf("close: got %d rows, want 7", v.o.Rows(slab))
	}
	if v.o.Ready(slab) {
		t.Fatal("ready with three rows uncommitted")
	}
	v.f[0].Commit(&r1)
	if !v.o.Ready(slab) {
		t.Fatal("not ready with all rows committed")
	}
	v.o.Begin(slab)
	score(v.o, slab)
	v.o.Complete(slab, StatusOK)
	if v.o.Recycle() != 0 {
		t.Fatal("recycled before the scores were read (I7)")
	}
	v.f[0].Poll()
	if v.o.Recycle() != 0 {
		t.Fatal("recycled before the second frontend read its scores (I7)")
	}
	v.f[1].Poll()
	if v.o.Recycle() != 1 {
		t.Fatal("not recycled after both have read")
	}
	wantDelivery(t, &a, 7, 1100, 3)
	wantDelivery(t, &b, 8, 1200, 4)
	mustBeSound(t, v.r, true)
}

func wantDelivery(t testing.TB, b *box, tag int, first uint32, n int) {
	t.Helper()
	if len(b.got) != 1 || b.got[0].tag != tag || len(b.got[0].scores) != n || b.got[0].scores[0] != first || b.got[0].scores[n-1] != first+uint32(n-1) {
		t.Errorf("delivered %+v, want tag %d and %d scores from %d", b.got, tag, n, first)
	}
	b.got = nil
}

func TestReserveGrantsWhatIsLeftAndThenNothing(t *testing.T) {
	v := newTrio(t, smallGeometry())
	if _, ok := v.f[0].Reserve(1, false, &box{}, 0); ok {
		t.Fatal("reserved without an open slab")
	}
	v.o.Open()
	var b box
	r1 := mustReserve(t, v.f[0], 4, &b, 0)
	r2 := mustReserve(t, v.f[0], 3, &b, 0)
	if _, ok := v.f[1].Reserve(2, true, &b, 0); ok {
		t.Fatal("whole reservation in a slab that is not empty")
	}
	r3 := mustReserve(t, v.f[1], 4, &b, 0)
	if r3.N != 1 {
		t.Fatalf("got %d rows of the one that is left, want 1", r3.N)
	}
	if _, ok := v.f[1].Reserve(1, false, &b, 0); ok {
		t.Fatal("reserved in a full slab (I2)")
	}
	v.f[0].Commit(&r1)
	v.f[0].Commit(&r2)
	v.f[1].Commit(&r3)
}

func TestWholeReservationClosesItsSlab(t *testing.T) {
	v := newTrio(t, smallGeometry())
	first, _ := v.o.Open()
	second, _ := v.o.Open()
	var b box
	r1, ok1 := v.f[0].Reserve(5, true, &b, 1)
	r2, ok2 := v.f[1].Reserve(2, true, &b, 2)
	if !ok1 || !ok2 || r1.slab == r2.slab {
		t.Fatalf("whole reservations: %v %v in slabs %d %d, want two slabs", ok1, ok2, r1.slab, r2.slab)
	}
	if _, ok := v.f[0].Reserve(1, true, &b, 3); ok {
		t.Fatal("a third whole reservation with both slabs taken")
	}
	for _, slab := range []int{first, second} {
		if n := v.o.Close(slab); n != 5 && n != 2 {
			t.Errorf("slab %d: %d rows, want 5 or 2", slab, n)
		}
	}
	v.f[0].Commit(&r1)
	v.f[1].Commit(&r2)
}

func TestI9RowsOfADeadFrontendAreVoidAfterTheGrace(t *testing.T) {
	v := newTrio(t, smallGeometry())
	slab, _ := v.o.Open()
	var dead, live, late box
	mustReserve(t, v.f[0], 3, &dead, 1) // never committed: the process is killed here
	r2 := mustReserve(t, v.f[1], 2, &live, 2)
	v.s.MarkDead(0, 1)
	if v.s.Recovered(0) {
		t.Fatal("recovered before the owner looked")
	}
	if v.o.HandleDeaths() != 1 || v.o.Phase(slab) != PhaseClosed {
		t.Fatalf("after the death: slab is %s, want closed", v.o.Phase(slab))
	}
	if !v.s.Recovered(0) {
		t.Fatal("not recovered after the owner cleared its bits (I8)")
	}
	for range 3 {
		if v.o.Ready(slab) {
			t.Fatal("grace over while a live writer holds a reservation")
		}
	}
	write(&r2, 50)
	v.f[1].Commit(&r2)
	if !v.o.Ready(slab) {
		t.Fatal("grace not over after the live writer committed")
	}
	if got := v.o.Entries(slab); len(got) != 1 || got[0] != (Entry{Frontend: 1, Start: 3, Rows: 2}) {
		t.Fatalf("entries %+v, want the live frontend's alone", got)
	}
	v.o.Begin(slab)
	score(v.o, slab)
	v.o.Complete(slab, StatusOK)
	v.f[1].Poll()
	if v.o.Recycle() != 1 {
		t.Fatal("not recycled: a dead frontend's bit holds it up (I4)")
	}
	wantDelivery(t, &live, 2, 1050, 2)
	if len(dead.got) != 0 {
		t.Errorf("the dead frontend was delivered %+v", dead.got)
	}
	again, err := v.r.Frontend(0, 2)
	if err != nil {
		t.Fatalf("next incarnation: %v", err)
	}
	slab, _ = v.o.Open()
	r3 := mustReserve(t, again, 2, &late, 3)
	write(&r3, 70)
	again.Commit(&r3)
	v.o.Close(slab)
	if !v.o.Ready(slab) {
		t.Fatal("the next incarnation's rows are not ready")
	}
	score(v.o, slab)
	v.o.Complete(slab, StatusOK)
	again.Poll()
	v.o.Recycle()
	wantDelivery(t, &late, 3, 1070, 2)
	mustBeSound(t, v.r, true)
}

func TestI8RolesAreTakenOnceAnIncarnation(t *testing.T) {
	v := newTrio(t, smallGeometry())
	for _, inc := range []uint32{1, 2} {
		if _, err := v.r.Frontend(0, inc); !errors.Is(err, ErrRoleTaken) {
			t.Errorf("frontend 0 incarnation %d beside a live one: got %v, want %v", inc, err, ErrRoleTaken)
		}
		if _, err := v.r.Owner(inc, v.bells); !errors.Is(err, ErrRoleTaken) {
			t.Errorf("owner incarnation %d beside a live one: got %v, want %v", inc, err, ErrRoleTaken)
		}
	}
	v.s.MarkDead(0, 1)
	if _, err := v.r.Frontend(0, 2); !errors.Is(err, ErrNotRecovered) {
		t.Errorf("frontend 0 before the owner's clean-up: got %v, want %v", err, ErrNotRecovered)
	}
	v.o.HandleDeaths()
	if _, err := v.r.Frontend(0, 1); !errors.Is(err, ErrRoleTaken) {
		t.Errorf("frontend 0 incarnation 1 again: got %v, want %v", err, ErrRoleTaken)
	}
	if _, err := v.r.Frontend(0, 2); err != nil {
		t.Errorf("frontend 0 incarnation 2 after the clean-up: %v", err)
	}
	v.s.MarkOwnerDead(1)
	if _, err := v.r.Owner(2, v.bells); err != nil {
		t.Errorf("owner incarnation 2 after the death: %v", err)
	}
}

func TestI4SuccessorOfTheOwnerFindsEveryPhase(t *testing.T) {
	g := smallGeometry()
	g.Slabs = 5
	v := newTrio(t, g)
	var done, begun, waiting, open box
	step := func(b *box, value uint32) int {
		slab, _ := v.o.Open()
		r := mustReserve(t, v.f[0], 2, b, int(value))
		write(&r, value)
		v.f[0].Commit(&r)
		return slab
	}
	doneSlab := step(&done, 10)
	v.o.Close(doneSlab)
	score(v.o, doneSlab)
	v.o.Complete(doneSlab, StatusOK)
	begunSlab := step(&begun, 20)
	v.o.Close(begunSlab)
	v.o.Begin(begunSlab)
	waitingSlab := step(&waiting, 30)
	v.o.Close(waitingSlab)
	openSlab := step(&open, 40)

	v.s.MarkOwnerDead(1)
	o, err := v.r.Owner(2, v.bells)
	if err != nil {
		t.Fatal(err)
	}
	for slab, want := range map[int]Phase{doneSlab: PhaseDone, begunSlab: PhaseClosed, waitingSlab: PhaseClosed, openSlab: PhaseOpen} {
		if o.Phase(slab) != want {
			t.Errorf("slab %d: %s, want %s", slab, o.Phase(slab), want)
		}
	}
	if o.Attempts(begunSlab) != 1 || o.Attempts(waitingSlab) != 0 {
		t.Errorf("attempts %d and %d, want 1 and 0", o.Attempts(begunSlab), o.Attempts(waitingSlab))
	}
	o.Close(openSlab)
	for _, slab := range []int{begunSlab, waitingSlab, openSlab} {
		if !o.Ready(slab) {
			t.Fatalf("slab %d is not ready for the successor", slab)
		}
		score(o, slab)
		o.Complete(slab, StatusOK)
	}
	v.f[0].Poll()
	if n := o.Recycle(); n != 4 {
		t.Errorf("recycled %d slabs, want 4", n)
	}
	for value, b := range map[uint32]*box{10: &done, 20: &begun, 30: &waiting, 40: &open} {
		wantDelivery(t, b, int(value), value+1000, 2)
	}
	mustBeSound(t, v.r, true)
}

func TestReservationRunAloneTakesOnlyItselfDown(t *testing.T) {
	v := newTrio(t, smallGeometry())
	slab, _ := v.o.Open()
	var good, bad box
	r1 := mustReserve(t, v.f[0], 2, &good, 1)
	r2 := mustReserve(t, v.f[0], 3, &bad, 2)
	write(&r1, 10)
	write(&r2, 20)
	v.f[0].Commit(&r1)
	v.f[0].Commit(&r2)
	v.o.Close(slab)
	v.o.Ready(slab)
	score(v.o, slab)
	for want := range 3 {
		if _, finished, tries := v.o.Alone(slab, 0); finished || tries != want {
			t.Fatalf("before try %d: finished %v, tries %d", want, finished, tries)
		}
		v.o.BeginAlone(slab, 0)
	}
	v.o.FinishAlone(slab, 0, StatusOK)
	v.o.FinishAlone(slab, 2, StatusDeviceError)
	if status, finished, _ := v.o.Alone(slab, 2); !finished || status != StatusDeviceError {
		t.Fatalf("result of row 2: %v %v, want a device error", status, finished)
	}
	v.o.CompleteAlone(slab)
	v.f[0].Poll()
	wantDelivery(t, &good, 1, 1010, 2)
	if len(bad.got) != 1 || bad.got[0].status != StatusDeviceError || bad.got[0].scores != nil {
		t.Errorf("delivered %+v, want a device error without scores", bad.got)
	}
}

func TestNothingCountsAsExecutedAtTheBeginningOfALife(t *testing.T) {
	g := smallGeometry()
	g.Slabs = 2
	v := newTrio(t, g)
	for life := range 10 {
		slab, _ := v.o.Open()
		var b box
		r := mustReserve(t, v.f[0], 1, &b, life)
		v.f[0].Commit(&r)
		v.o.Close(slab)
		if _, finished, tries := v.o.Alone(slab, 0); finished || tries != 0 {
			t.Fatalf("life %d: finished %v after %d tries, want neither", life, finished, tries)
		}
		v.o.Complete(slab, StatusOK)
		v.f[0].Poll()
		v.o.Recycle()
	}
}

func TestStragglersAreNamedAndNotBefore(t *testing.T) {
	v := newTrio(t, smallGeometry())
	slab, _ := v.o.Open()
	var a, b box
	mustReserve(t, v.f[0], 1, &a, 0) // stuck
	r := mustReserve(t, v.f[1], 1, &b, 0)
	v.f[1].Commit(&r)
	v.o.Close(slab)
	const after = 20 * time.Millisecond
	if m := v.o.Stragglers(time.Hour); m != 0 {
		t.Fatalf("stragglers at once: %#x", m)
	}
	deadline := time.Now().Add(10 * time.Second)
	for v.o.Stragglers(after) == 0 && time.Now().Before(deadline) {
	}
	if m := v.o.Stragglers(after); m != 1 {
		t.Fatalf("stragglers %#x, want frontend 0 alone", m)
	}
	if inc, want := v.s.KillRequest(0); !want || inc != 1 {
		t.Errorf("kill request of frontend 0: %d %v, want incarnation 1", inc, want)
	}
	if _, want := v.s.KillRequest(1); want {
		t.Error("kill request of frontend 1, which is not stuck")
	}
	v.s.MarkDead(0, 1)
	if _, want := v.s.KillRequest(0); want {
		t.Error("kill request of a frontend that is dead")
	}
}

func TestNobodyIsAStragglerBecauseTheOwnerWasAway(t *testing.T) {
	v := newTrio(t, smallGeometry())
	var a, b box
	step := func() int {
		slab, _ := v.o.Open()
		r := mustReserve(t, v.f[1], 1, &b, 0)
		v.f[1].Commit(&r)
		return slab
	}
	done := step()
	v.o.Close(done)
	v.o.Complete(done, StatusOK) // unread
	closed := step()
	mustReserve(t, v.f[0], 1, &a, 0) // uncommitted
	v.o.Close(closed)
	const after = time.Minute
	for range 3 { // pauses of the owner, or of everybody
		if m := v.o.Stragglers(after); m != 0 {
			t.Fatalf("stragglers %#x after a pause, want none", m)
		}
		v.o.looked = v.o.looked.Add(-time.Hour)
	}
	for range 8 { // looks a fifth of the time apart, as often as it takes
		v.o.looked = v.o.looked.Add(-after / 5)
		v.o.Stragglers(after)
	}
	if m := v.o.Stragglers(after); m != 3 {
		t.Fatalf("stragglers %#x, want both frontends", m)
	}
}

func TestI5RoomRingsThoseWhoAskedForIt(t *testing.T) {
	v := newTrio(t, smallGeometry())
	v.f[1].AnnounceSpace()
	before := v.bells.n
	v.o.Open()
	if v.bells.n[1] != before[1]+1 || v.bells.n[0] != before[0] {
		t.Errorf("rings went from %v to %v, want one more for frontend 1 alone", before[:2], v.bells.n[:2])
	}
}

func TestI5ParkSeesWorkThatCameBeforeIt(t *testing.T) {
	v := newTrio(t, smallGeometry())
	if v.o.Park(false, time.Minute, func() bool { return true }) {
		t.Error("park timed out although there was work")
	}
	woken := make(chan bool)
	entered := make(chan struct{})
	go func() {
		woken <- v.o.Park(false, time.Minute, func() bool { close(entered); return false })
	}()
	<-entered
	v.o.Wake() // the bell is announced: the wait returns at once or is woken
	if timedOut := <-woken; timedOut {
		t.Error("park ended by its time, want by the wake-up")
	}
}
