package frontend

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"rankd/deviceowner"
	"rankd/deviceowner/sim"
	"rankd/frontend/wire/kservepb"
	"rankd/frontend/wire/rankdpb"
	"rankd/internal/batching"
	"rankd/internal/bell"
	"rankd/internal/hugemem"
	"rankd/internal/stats"
	"rankd/internal/testutil"
	"rankd/model"
	"rankd/model/demo"
	"rankd/shmring"
	"rankd/tables"
)

// real is a frontend on real parts in one process: a loaded test model, a region on the heap, and a device owner with the
// simulated accelerator, which takes a checksum of every byte of a row.
type real struct {
	core     *Core
	manifest *model.Manifest
	layout   *sim.Layout
	region   *shmring.Region
	owner    *stats.Block
	server   *grpcServer
	address  string
	predict  rankdpb.PredictionServiceClient
	infer    kservepb.GRPCInferenceServiceClient
}

func newReal(t testing.TB, batching string, slabs, capacity int) *real {
	t.Helper()
	ctx := context.Background()
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	bundle, err := demo.CreateTest(ctx, demo.TestOptions{Dir: t.TempDir() + "/model", MaxBatch: capacity, Golden: -1})
	if err != nil {
		t.Fatal(err)
	}
	m := bundle.Manifest
	segment, err := tables.Load(ctx, bundle, tables.Options{Instance: testutil.Instance(t), Want: hugemem.Small, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	set, err := tables.Attach(int(segment.FD().Fd()), m)
	if err != nil {
		t.Fatal(err)
	}
	page, file, err := stats.Create()
	if err != nil {
		t.Fatal(err)
	}
	cfg := Default()
	cfg.Batching, cfg.GatherWorkers, cfg.MaxRequestRows = batching, 2, 200000
	cfg.PendingRows = 400000

	g := shmring.Geometry{
		Slabs: slabs, Capacity: capacity, ChunkRows: min(cfg.ChunkRows, capacity), ScoreBytes: m.ScoreBytes(), Frontends: 1, Writers: 32,
	}
	for _, p := range m.Packed {
		g.Strides = append(g.Strides, p.Stride)
	}
	r := &real{manifest: m, owner: page.Owner()}
	if r.region, err = shmring.Format(shmring.HeapMemory(g.Bytes()), g); err != nil {
		t.Fatal(err)
	}
	fd, err := bell.Create()
	if err != nil {
		t.Fatal(err)
	}
	b, err := bell.Open(fd)
	if err != nil {
		t.Fatal(err)
	}
	r.region.Supervisor(bell.Set{fd}).SetOwnerState(shmring.OwnerUp)
	stopOwner := r.startOwner(t, cfg.Batching, g, fd, page.Owner())
	role, err := r.region.Frontend(0, 1)
	if err != nil {
		t.Fatal(err)
	}
	r.core, err = newCore(cfg, m, set, &shmRing{Frontend: role, region: r.region, bell: b}, shapeOf(g, cfg), &meter{page.Frontend(0)}, log)
	if err != nil {
		t.Fatal(err)
	}
	r.server = newGRPCServer(r.core, nil, log)
	r.core.OnState(r.server.health.set)
	r.core.Start()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- r.server.serve(l) }()
	r.address = l.Addr().String()
	conn := dial(t, r.address)
	r.predict, r.infer = rankdpb.NewPredictionServiceClient(conn), kservepb.NewGRPCInferenceServiceClient(conn)
	t.Cleanup(func() {
		conn.Close()
		r.server.server.Stop()
		r.server.health.end()
		<-served
		r.core.Close()
		stopOwner()
		for _, err := range []error{b.Close(), set.Close(), segment.Remove(), segment.Close(), page.Close(), file.Close()} {
			if err != nil {
				t.Error(err)
			}
		}
	})
	return r
}

func (r *real) startOwner(t testing.TB, batching string, g shmring.Geometry, fd int, counters *stats.Block) (stop func()) {
	t.Helper()
	var err error
	if r.layout, err = sim.LayoutOf(r.manifest); err != nil {
		t.Fatal(err)
	}
	o := sim.Default(r.layout)
	o.Call, o.Row, o.Full = 100*time.Microsecond, 100*time.Nanosecond, true
	device, err := sim.New(o)
	if err != nil {
		t.Fatal(err)
	}
	buckets := demo.PowersOfTwo(g.Capacity)
	for _, b := range buckets {
		if err := device.Compile(context.Background(), b); err != nil {
			t.Fatal(err)
		}
	}
	owner, err := r.region.Owner(1, bell.Set{fd})
	if err != nil {
		t.Fatal(err)
	}
	cfg := deviceowner.Default()
	cfg.Batching = batching
	loop, err := deviceowner.NewLoop(deviceowner.Options{
		Ring: owner, Geometry: g, Executor: device, Config: cfg, Buckets: buckets, Counters: counters,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- loop.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := device.Close(); err != nil {
			t.Error(err)
		}
	}
}

// request is a random request of so many rows and the scores that the simulated device must give for it, computed from
// what the tables of the test model are known to hold.
func (r *real) request(rng *rand.Rand, rows int) (*rankdpb.PredictRequest, []float32) {
	return r.requestSharing(rng, rows, nil)
}

// requestSharing is a random request in which some inputs, by their places among tables and dense ones, have one row for all.
func (r *real) requestSharing(rng *rand.Rand, rows int, shared []bool) (*rankdpb.PredictRequest, []float32) {
	one := func(input int) bool { return input < len(shared) && shared[input] }
	brings := func(input int) int {
		if one(input) {
			return 1
		}
		return rows
	}
	in := map[string]*rankdpb.HostBufferProto{}
	packed := make([]byte, rows*r.manifest.Packed[0].Stride)
	stride := r.manifest.Packed[0].Stride
	put := func(row, offset int, v float32) {
		binary.LittleEndian.PutUint32(packed[row*stride+offset:], math.Float32bits(v))
	}
	for i := range r.manifest.Tables {
		t := &r.manifest.Tables[i]
		var data []byte
		var id int64
		for row := range rows {
			if row < brings(i) {
				id = rng.Int64N(t.Rows)
				data = binary.LittleEndian.AppendUint64(data, uint64(id))
			}
			for k := range t.Dim {
				put(row, t.Slot.Offset+4*k, demo.TestRow(i, id))
			}
		}
		in[t.Name] = tensor(i64, data, int64(brings(i)), 1)
	}
	d := &r.manifest.Dense[0]
	var data []byte
	features := make([]float32, d.Width)
	own := brings(len(r.manifest.Tables))
	for row := range rows {
		for k := range features {
			if row < own {
				features[k] = float32(rng.IntN(8))
				data = binary.LittleEndian.AppendUint32(data, math.Float32bits(features[k]))
			}
			put(row, d.Slot.Offset+4*k, features[k])
		}
	}
	in[d.Name] = tensor(f32, data, int64(own), int64(d.Width))
	want := make([]float32, rows)
	for row := range want {
		want[row] = sim.ScoreRow(r.layout, packed[row*stride:][:stride], true)
	}
	return &rankdpb.PredictRequest{ModelName: r.manifest.Name, Inputs: in}, want
}

// ask sends one request over one of the protocols and compares the scores.
func (r *real) ask(ctx context.Context, rng *rand.Rand, rows int) error {
	var shared []bool
	for range rng.IntN(2) * (len(r.manifest.Tables) + 1) { // every other request has some inputs of one row
		shared = append(shared, rng.IntN(2) == 0)
	}
	if len(shared) > 0 {
		shared[rng.IntN(len(shared))] = false // one at least says how many rows there are
	}
	p, want := r.requestSharing(rng, rows, shared)
	var got []float32
	if rng.IntN(2) == 0 {
		reply, err := r.predict.Predict(ctx, p)
		if err != nil {
			return err
		}
		got = floats(reply.GetOutputs()["score"].GetData())
	} else {
		reply, err := r.infer.ModelInfer(ctx, toInfer(p))
		if err != nil {
			return err
		}
		got = floats(reply.GetRawOutputContents()[0])
	}
	if len(got) != len(want) {
		return fmt.Errorf("got %d scores, want %d", len(got), len(want))
	}
	for i := range want {
		if got[i] != want[i] {
			return fmt.Errorf("row %d of %d: got %v, want %v", i, rows, got[i], want[i])
		}
	}
	return nil
}

func TestI5ManyCallersGetTheScoresOfTheirOwnRows(t *testing.T) {
	for _, kind := range batching.All() {
		t.Run(string(kind), func(t *testing.T) {
			r := newReal(t, string(kind), 4, 64)
			seed := uint64(time.Now().UnixNano())
			t.Logf("seed %d", seed)
			var wg sync.WaitGroup
			for caller := range 64 {
				wg.Go(func() {
					rng := rand.New(rand.NewPCG(seed, uint64(caller)))
					for range 12 {
						if rng.IntN(20) == 0 {
							p, _ := r.request(rng, 3)
							p.Inputs["t1"].Data = p.Inputs["t1"].Data[:23]
							if _, err := r.predict.Predict(background(t), p); reasonOf(err) != "invalid_size" {
								t.Errorf("malformed request: got %v, want invalid_size", err)
							}
							continue
						}
						if err := r.ask(background(t), rng, []int{1, 2, 3, 7, 31}[rng.IntN(5)]); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			r.atRest(t)
		})
	}
}

func TestRowLimitsOfTheDeviceAreKept(t *testing.T) {
	r := newReal(t, "continuous", 4, 256)
	rng := rand.New(rand.NewPCG(1, 2))
	large := make(chan error, 1)
	go func() { large <- r.ask(background(t), rand.New(rand.NewPCG(3, 4)), 20000) }()
	var small sync.WaitGroup
	for i := range 10 {
		small.Go(func() {
			if err := r.ask(background(t), rand.New(rand.NewPCG(5, uint64(i))), 40); err != nil {
				t.Error(err)
			}
		})
	}
	for _, rows := range []int{255, 2, 256, 257, 1000} {
		if err := r.ask(background(t), rng, rows); err != nil {
			t.Errorf("%d rows: %v", rows, err)
		}
	}
	small.Wait()
	if err := <-large; err != nil {
		t.Error(err)
	}
	r.atRest(t)
}

func TestWarmUpGoesThroughToTheDevice(t *testing.T) {
	for _, kind := range batching.All() {
		r := newReal(t, string(kind), 4, 64)
		if err := r.core.warm(background(t)); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		r.atRest(t)
	}
}

// atRest waits for all rows to be back and checks the region.
func (r *real) atRest(t *testing.T) {
	t.Helper()
	if err := r.core.Drain(background(t)); err != nil {
		t.Fatal(err)
	}
	r.core.draining.Store(false)
	deadline := time.Now().Add(10 * time.Second)
	for {
		found := r.region.Check(true)
		if len(found) == 0 && r.core.ring.PendingRows() == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("region at rest: %v, %d rows pending", found, r.core.ring.PendingRows())
		}
		<-time.After(time.Millisecond)
	}
}
