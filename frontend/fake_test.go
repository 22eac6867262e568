package frontend

import (
	"encoding/binary"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"rankd/frontend/wire/rankdpb"
	"rankd/internal/dtype"
	"rankd/internal/stats"
	"rankd/internal/testutil"
	"rankd/model"
	"rankd/shmring"
	"rankd/tables"
)

func TestMain(m *testing.M) { testutil.Main(m) }

// testManifest is the small test model: 4 tables of 1000 rows and dim 8, one id a bag, dense [B, 13], score [B].
func testManifest() *model.Manifest {
	m := &model.Manifest{
		FormatVersion: 1, Name: "test", Version: "1", MaxBatch: 256, Buckets: []int{256},
		Outputs: []model.Output{{Name: "score"}},
		Dense:   []model.Dense{{Name: "dense", Width: 13, DType: dtype.Float32}},
	}
	for _, name := range []string{"t0", "t1", "t2", "t3"} {
		m.Tables = append(m.Tables, model.Table{
			Name: name, Rows: 1000, Dim: 8, Hotness: 1, Combiner: "sum", IDPolicy: "reject", RowDType: dtype.Float32,
		})
	}
	m.AssignSlots(dtype.Float32)
	return m
}

// fakeScore is what the fakes answer for a row whose id is the same in all four tables.
func fakeScore(id int64) float32 { return float32(id) * (1 + 2 + 3 + 4) }

// fakeTables stands for the tables: Sweep writes Σ (t+1)·id of the row's first ids at the start of the packed row.
// It counts the bags that it looks up: those for all rows of a request, and those for single rows.
type fakeTables struct {
	mu     sync.Mutex
	plans  map[*tables.Plan]fakePlan
	shared map[*tables.Shared][]float32 // by table
	forAll int
	forRow int
	panics atomic.Int32 // panic in Resolve (1), Sweep (2) or Pool (3)
	sweeps func()       // called by every Sweep; nil: nothing
	stride int
}

type fakePlan struct {
	bags     []tables.Bags
	first, n int
}

func fakeID(b *tables.Bags, row int) int64 {
	if b.Broadcast {
		row = 0
	}
	at := b.First + row*b.Step
	if b.Offsets != nil {
		at = int(b.Offsets[row])
	}
	if b.Width == 4 {
		return int64(int32(binary.LittleEndian.Uint32(b.Values[4*at:])))
	}
	return int64(binary.LittleEndian.Uint64(b.Values[8*at:]))
}

func (f *fakeTables) Validate(bags []tables.Bags, rows int) error {
	for t := range bags {
		for row := range rows {
			if id := fakeID(&bags[t], row); id < 0 || id >= 1000 {
				return &tables.IDError{Table: "t" + string(rune('0'+t)), Row: row, ID: id, Rows: 1000}
			}
		}
	}
	return nil
}

func (f *fakeTables) Pool(_ *tables.Plan, shared *tables.Shared, bags []tables.Bags) {
	if f.panics.CompareAndSwap(3, 0) {
		panic("injected")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	values := make([]float32, len(bags))
	for t := range bags {
		if bags[t].Broadcast {
			values[t] = float32(t+1) * float32(fakeID(&bags[t], 0))
			f.forAll++
		}
	}
	f.shared[shared] = values
}

func (f *fakeTables) Resolve(p *tables.Plan, bags []tables.Bags, first, n int) {
	if f.panics.CompareAndSwap(1, 0) {
		panic("injected")
	}
	f.mu.Lock()
	f.plans[p] = fakePlan{bags, first, n}
	f.mu.Unlock()
}

func (f *fakeTables) Sweep(p *tables.Plan, shared *tables.Shared, dst [][]byte, from, n int) {
	if f.panics.CompareAndSwap(2, 0) {
		panic("injected")
	}
	if f.sweeps != nil {
		f.sweeps()
	}
	f.mu.Lock()
	plan, values := f.plans[p], f.shared[shared]
	for t := range plan.bags {
		if !plan.bags[t].Broadcast {
			f.forRow += n
		}
	}
	f.mu.Unlock()
	if from < 0 || from+n > plan.n {
		panic("sweep outside the plan")
	}
	for row := range n {
		var sum float32
		for t := range plan.bags {
			if plan.bags[t].Broadcast {
				sum += values[t]
				continue
			}
			sum += float32(t+1) * float32(fakeID(&plan.bags[t], plan.first+from+row))
		}
		binary.LittleEndian.PutUint32(dst[0][row*f.stride:], math.Float32bits(sum))
	}
}

// fakeRing is a region without a device: what is committed waits until the test completes it.
type fakeRing struct {
	stride  int
	rng     *rand.Rand // partial grants; nil: none
	bell    chan struct{}
	pending atomic.Int64
	others  atomic.Int64 // pending rows of other frontends
	state   atomic.Uint32
	drain   atomic.Bool
	holds   atomic.Int32 // reservations that are not committed
	denied  atomic.Int64 // reservations refused for want of room

	mu        sync.Mutex
	room      int
	reserved  []fakeChunk // open reservations
	committed []fakeChunk // in the order of reservation
	finished  []fakeChunk
	log       []fakeChunk // every commit, ever
}

type fakeChunk struct {
	to     shmring.Completion
	tag, n int
	rows   []byte
	status shmring.Status
}

func newFakeRing(stride, room int) *fakeRing {
	r := &fakeRing{stride: stride, room: room, bell: make(chan struct{}, 1)}
	r.state.Store(uint32(shmring.OwnerUp))
	return r
}

func (r *fakeRing) Reserve(h *hold, n int, whole bool, to shmring.Completion, tag int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	granted := min(n, r.room)
	if granted == 0 || whole && granted < n {
		r.denied.Add(1)
		return false
	}
	if r.rng != nil && !whole {
		granted = 1 + r.rng.IntN(granted)
	}
	r.room -= granted
	h.N = granted
	h.Arrays[0] = slices.Repeat([]byte{0xCC}, granted*r.stride)
	r.reserved = append(r.reserved, fakeChunk{to: to, tag: tag, n: granted, rows: h.Arrays[0]})
	r.holds.Add(1)
	return true
}

func (r *fakeRing) Commit(h *hold) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.IndexFunc(r.reserved, func(c fakeChunk) bool { return &c.rows[0] == &h.Arrays[0][0] })
	c := r.reserved[i]
	r.reserved = slices.Delete(r.reserved, i, i+1)
	r.committed = append(r.committed, c)
	r.log = append(r.log, c)
	r.holds.Add(-1)
	h.N = -1 // the hold is the ring's
}

// complete finishes up to n chunks with the status and rings.
func (r *fakeRing) complete(n int, status shmring.Status) (done int) {
	r.mu.Lock()
	done = min(n, len(r.committed))
	for _, c := range r.committed[:done] {
		c.status = status
		r.room += c.n
		r.finished = append(r.finished, c)
	}
	r.committed = slices.Delete(r.committed, 0, done)
	r.mu.Unlock()
	r.Wake()
	return done
}

func (r *fakeRing) Poll() int {
	r.mu.Lock()
	finished := r.finished
	r.finished = nil
	r.mu.Unlock()
	for _, c := range finished {
		var scores []byte
		if c.status == shmring.StatusOK {
			for row := range c.n {
				scores = append(scores, c.rows[row*r.stride:][:4]...)
			}
		}
		c.to.Complete(c.tag, scores, c.status)
	}
	return len(finished)
}

func (r *fakeRing) AnnounceSpace()                 {}
func (r *fakeRing) AddPendingRows(n int) int64     { return r.pending.Add(int64(n)) }
func (r *fakeRing) PendingRows() int64             { return r.pending.Load() }
func (r *fakeRing) TotalPendingRows() int64        { return r.pending.Load() + r.others.Load() }
func (r *fakeRing) OwnerState() shmring.OwnerState { return shmring.OwnerState(r.state.Load()) }
func (r *fakeRing) Draining() bool                 { return r.drain.Load() }

func (r *fakeRing) Wait(atMost time.Duration) (rung bool) {
	select {
	case <-r.bell:
		return true
	case <-time.After(atMost):
		return false
	}
}

func (r *fakeRing) Wake() {
	select {
	case r.bell <- struct{}{}:
	default:
	}
}

func (r *fakeRing) committedRows() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.log {
		n += c.n
	}
	return n
}

// bench is a core on fakes.
type bench struct {
	*Core
	ring   *fakeRing
	tables *fakeTables
	block  *stats.Block
}

func testConfig() Config {
	cfg := Default()
	cfg.ChunkRows, cfg.InlineChunks, cfg.GatherWorkers = 4, 8, 2
	return cfg
}

// newBench makes a core with room for so many rows in its region. It is started and closed by the test.
func newBench(t testing.TB, cfg Config, room int, beforeStart ...func(*Core)) *bench {
	t.Helper()
	m := testManifest()
	page, file, err := stats.Create()
	if err != nil {
		t.Fatal(err)
	}
	stride := m.Packed[0].Stride
	b := &bench{
		ring: newFakeRing(stride, room), block: page.Frontend(0),
		tables: &fakeTables{plans: map[*tables.Plan]fakePlan{}, shared: map[*tables.Shared][]float32{}, stride: stride},
	}
	sh := shape{
		arrays: 1, strides: []int{stride}, scoreBytes: 4, capacity: 256, chunk: cfg.ChunkRows, whole: cfg.Batching == "off",
	}
	b.Core, err = newCore(cfg, m, b.tables, b.ring, sh, &meter{b.block}, slog.New(slog.NewTextHandler(io.Discard, nil)))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range beforeStart {
		f(b.Core)
	}
	b.Start()
	t.Cleanup(func() {
		b.Close()
		page.Close()
		file.Close()
	})
	return b
}

// answer is a Responder for tests. A second reply is counted.
type answer struct {
	done    chan struct{}
	replies atomic.Int32
	body    []byte
	err     *Error
}

func newAnswer() *answer { return &answer{done: make(chan struct{})} }

func (a *answer) Reply(body []byte, err *Error) {
	if a.replies.Add(1) > 1 {
		return
	}
	a.body, a.err = slices.Clone(body), err
	close(a.done)
}

func (a *answer) wait(t testing.TB) {
	t.Helper()
	select {
	case <-a.done:
	case <-time.After(20 * time.Second):
		t.Fatal("no reply within 20 s")
	}
}

func (a *answer) waiting() bool {
	select {
	case <-a.done:
		return false
	default:
		return true
	}
}

// scores returns the scores of a good reply.
func (a *answer) scores(t testing.TB) []float32 {
	t.Helper()
	a.wait(t)
	if a.err != nil {
		t.Fatalf("got error %v (%s), want scores", a.err, a.err.Reason)
	}
	var reply rankdpb.PredictResponse
	if err := proto.Unmarshal(a.body, &reply); err != nil {
		t.Fatal(err)
	}
	return floats(reply.GetOutputs()["score"].GetData())
}

func floats(data []byte) []float32 {
	out := make([]float32, len(data)/4)
	for i := range out {
		out[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
	}
	return out
}

// predictOf is a request in which all tables take the same ids, one a row.
func predictOf(ids ...int64) *rankdpb.PredictRequest {
	raw := make([]byte, 0, 8*len(ids))
	for _, id := range ids {
		raw = binary.LittleEndian.AppendUint64(raw, uint64(id))
	}
	rows := int64(len(ids))
	in := map[string]*rankdpb.HostBufferProto{
		"dense": {Dtype: rankdpb.DType_DTYPE_FLOAT32, Shape: []int64{rows, 13}, Data: make([]byte, 52*len(ids))},
	}
	for _, name := range []string{"t0", "t1", "t2", "t3"} {
		in[name] = &rankdpb.HostBufferProto{Dtype: rankdpb.DType_DTYPE_INT64, Shape: []int64{rows, 1}, Data: raw}
	}
	return &rankdpb.PredictRequest{ModelName: "test", Inputs: in}
}

func encode(t testing.TB, m proto.Message) []byte {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// sequence is n ids from first, modulo the table.
func sequence(first, n int) []int64 {
	ids := make([]int64, n)
	for i := range ids {
		ids[i] = int64((first + i) % 1000)
	}
	return ids
}

func wantScores(t testing.TB, got []float32, ids []int64) {
	t.Helper()
	if len(got) != len(ids) {
		t.Fatalf("got %d scores, want %d", len(got), len(ids))
	}
	for i, id := range ids {
		if got[i] != fakeScore(id) {
			t.Fatalf("score %d: got %v, want %v", i, got[i], fakeScore(id))
		}
	}
}
