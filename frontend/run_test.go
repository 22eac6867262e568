package frontend

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net"
	"os"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"rankd/frontend/wire/rankdpb"
	"rankd/internal/batching"
	"rankd/internal/bell"
	"rankd/internal/child"
	"rankd/internal/config"
	"rankd/internal/hugemem"
	"rankd/internal/stats"
	"rankd/internal/testutil"
	"rankd/model/demo"
	"rankd/shmring"
	"rankd/tables"
)

// process is what a supervisor prepares for one frontend process, and that process's Run in this one.
type process struct {
	address string
	ready   *os.File // reading end
	life    *os.File // writing end
	done    chan error
	region  *shmring.Region
	bells   bell.Set
	cfg     Config
}

// descriptor is a copy of f's descriptor that the receiver owns.
func descriptor(t *testing.T, f interface{ Fd() uintptr }) int {
	t.Helper()
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		t.Fatal(err)
	}
	return fd
}

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

// startProcess prepares everything and calls Run; with owner a device owner executes batches.
func startProcess(t *testing.T, owner bool, mold func(*Config)) *process {
	t.Helper()
	ctx := context.Background()
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	bundle, err := demo.CreateTest(ctx, demo.TestOptions{Dir: t.TempDir() + "/model", MaxBatch: 64, Golden: -1})
	if err != nil {
		t.Fatal(err)
	}
	segment, err := tables.Load(ctx, bundle, tables.Options{Instance: testutil.Instance(t), Want: hugemem.Small, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	page, statsFile, err := stats.Create()
	if err != nil {
		t.Fatal(err)
	}
	g := shmring.Geometry{Slabs: 4, Capacity: 64, ChunkRows: 16, ScoreBytes: 4, Frontends: 1, Writers: 8}
	for _, p := range bundle.Manifest.Packed {
		g.Strides = append(g.Strides, p.Stride)
	}
	memory, err := hugemem.Create(ctx, hugemem.Options{Name: testutil.Instance(t), Size: int64(g.Bytes()), Want: hugemem.Small, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	region, err := shmring.Format(memory.Mapping.Bytes, g)
	if err != nil {
		t.Fatal(err)
	}
	fd, err := bell.Create()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{done: make(chan error, 1), region: region, bells: bell.Set{fd}}
	region.Supervisor(p.bells).SetOwnerState(shmring.OwnerUp)
	stopOwner := func() {}
	if owner {
		r := &real{manifest: bundle.Manifest, region: region}
		stopOwner = r.startOwner(t, "continuous", g, fd, page.Owner())
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p.address = l.Addr().String()
	listener, err := l.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	var readyW, lifeR *os.File
	p.ready, readyW = pipe(t)
	lifeR, p.life = pipe(t)

	cfg := Default()
	cfg.Inherited = child.Inherited{
		Incarnation: 1, ListenerFD: descriptor(t, listener), RegionFD: descriptor(t, memory), TablesFD: descriptor(t, segment.FD()),
		StatsFD: descriptor(t, statsFile), BellFDs: []int{fd}, ReadyFD: descriptor(t, readyW), LifeFD: descriptor(t, lifeR), LockFD: -1,
	}
	readyW.Close()
	lifeR.Close()
	listener.Close()
	cfg.Model = bundle.Dir
	if mold != nil {
		mold(&cfg)
	}
	p.cfg = cfg
	go func() { p.done <- Run(ctx, cfg, log) }()
	t.Cleanup(func() {
		stopOwner()
		unix.Close(cfg.RegionFD)
		unix.Close(cfg.TablesFD)
		unix.Close(cfg.StatsFD)
		for _, err := range []error{l.Close(), segment.Remove(), segment.Close(), memory.Close(), page.Close(), statsFile.Close()} {
			if err != nil {
				t.Error(err)
			}
		}
	})
	return p
}

// closeUnused closes what a process that was never ready leaves to the kernel.
func (p *process) closeUnused() {
	unix.Close(p.cfg.ReadyFD)
	unix.Close(p.cfg.ListenerFD)
}

func (p *process) end(t *testing.T) error {
	t.Helper()
	select {
	case err := <-p.done:
		return err
	case <-time.After(20 * time.Second):
		t.Fatal("Run did not return within 20 s")
		return nil
	}
}

func (p *process) readyLine(t *testing.T) string {
	t.Helper()
	if err := p.ready.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(p.ready).ReadString('\n')
	if err != nil {
		t.Fatalf("read ready line: %v", err)
	}
	return strings.TrimSpace(line)
}

func (p *process) waitHealth(t *testing.T, conn *grpc.ClientConn, want healthpb.HealthCheckResponse_ServingStatus) {
	t.Helper()
	testutil.Eventually(t, 10*time.Second, "health is "+want.String(), func() bool {
		r, err := healthpb.NewHealthClient(conn).Check(background(t), &healthpb.HealthCheckRequest{})
		return err == nil && r.GetStatus() == want
	})
}

func terminate(t *testing.T) {
	t.Helper()
	if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil { // Run has asked for it, so it does not end this process
		t.Fatal(err)
	}
}

func TestProcessWarmsUpServesAndDrains(t *testing.T) {
	p := startProcess(t, true, nil)
	want := child.Ready{Layout: shmring.LayoutVersion, Incarnation: 1}
	if got := p.readyLine(t); got != want.String() {
		t.Fatalf("got ready line %q, want %q", got, want)
	}
	conn := dial(t, p.address)
	defer conn.Close()
	p.waitHealth(t, conn, healthpb.HealthCheckResponse_SERVING)
	if _, err := rankdpb.NewPredictionServiceClient(conn).Predict(background(t), predictOf(1, 2, 3)); err != nil {
		t.Fatal(err)
	}
	terminate(t)
	if err := p.end(t); err != nil || ExitCode(err) != config.ExitOK {
		t.Errorf("got %v, want an orderly end", err)
	}
	if found := p.region.Check(true); len(found) > 0 {
		t.Errorf("region after the drain: %v", found)
	}
}

func TestProcessEndsWithItsSupervisor(t *testing.T) {
	p := startProcess(t, true, nil)
	p.readyLine(t)
	p.life.Close()
	if err := p.end(t); err == nil || ExitCode(err) != config.ExitError {
		t.Errorf("got %v, want an error: the supervisor is gone", err)
	}
}

func TestProcessIsNotReadyWithoutADevice(t *testing.T) {
	p := startProcess(t, false, func(c *Config) { c.WarmTimeout = time.Second })
	if err := p.end(t); err == nil || !strings.Contains(err.Error(), "warm up with 1 rows") || ExitCode(err) != config.ExitError {
		t.Errorf("got %v, want that the warm-up failed", err)
	}
	p.closeUnused()
	if line, err := bufio.NewReader(p.ready).ReadString('\n'); err == nil {
		t.Errorf("got ready line %q, want none", line)
	}
}

func TestProcessToldToStopWhileWarmingEndsInOrder(t *testing.T) {
	p := startProcess(t, false, nil)
	testutil.Eventually(t, 10*time.Second, "the warm-up waits for the device", func() bool { return p.region.TotalPendingRows() > 0 })
	terminate(t)
	if err := p.end(t); err != nil {
		t.Errorf("got %v, want an orderly end", err)
	}
	p.closeUnused()
}

func TestBadConfigurationHasItsExitCode(t *testing.T) {
	cfg := Default()
	cfg.ChunkRows = 0
	if err := Run(context.Background(), cfg, slog.New(slog.NewTextHandler(io.Discard, nil))); ExitCode(err) != config.ExitBadConfig {
		t.Errorf("got %v with exit code %v, want bad configuration", err, ExitCode(err))
	}
	cfg = Default()
	cfg.Model = t.TempDir()
	if err := Run(context.Background(), cfg, slog.New(slog.NewTextHandler(io.Discard, nil))); ExitCode(err) != config.ExitBadConfig {
		t.Errorf("got %v with exit code %v, want bad configuration", err, ExitCode(err))
	}
}

func TestSecondSignalEndsADrainAtOnce(t *testing.T) {
	p := startProcess(t, true, func(c *Config) { c.DrainDelay = 30 * time.Second })
	p.readyLine(t)
	conn := dial(t, p.address)
	defer conn.Close()
	p.waitHealth(t, conn, healthpb.HealthCheckResponse_SERVING)
	terminate(t)
	p.waitHealth(t, conn, healthpb.HealthCheckResponse_NOT_SERVING)
	terminate(t)
	if err := p.end(t); err == nil {
		t.Error("got an orderly end, want an error: told twice")
	}
}

func TestFlagTakesExactlyThePolicies(t *testing.T) {
	field, _ := reflect.TypeFor[Config]().FieldByName("Batching")
	taken := strings.Split(field.Tag.Get("oneof"), "|")
	for _, kind := range batching.All() {
		if !slices.Contains(taken, string(kind)) {
			t.Errorf("--batching of a frontend takes %v, want %q too", taken, kind)
		}
	}
	for _, name := range taken {
		if !batching.Kind(name).Known() {
			t.Errorf("--batching of a frontend takes %q, want it among %v", name, batching.All())
		}
	}
}
