package stats

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/prometheus/client_golang/prometheus"
	promtest "github.com/prometheus/client_golang/prometheus/testutil"
	"golang.org/x/sys/unix"
)

const childFD = "RANKD_TEST_STATS_FD"

func TestMain(m *testing.M) {
	if os.Getenv(childFD) != "" {
		countAndDie()
	}
	os.Exit(m.Run())
}

// countAndDie is a frontend that counts ten requests and is then killed.
func countAndDie() {
	p, err := Attach(3)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for range 10 {
		p.Frontend(1).Inc(Requests(APIRankd, OutcomeOK))
		p.Frontend(1).Move(PendingRows, 1)
		p.Frontend(1).Observe(StageTotal, 1000)
	}
	_ = unix.Kill(os.Getpid(), unix.SIGKILL)
	select {}
}

func create(t *testing.T) (*Page, *os.File) {
	t.Helper()
	p, file, err := Create()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		file.Close()
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p, file
}

func TestI2CountersOutliveKilledWriters(t *testing.T) {
	p, file := create(t)
	for lives := range 3 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childFD+"=3")
		cmd.ExtraFiles = []*os.File{file}
		if err := cmd.Run(); err == nil || cmd.ProcessState.ExitCode() != -1 {
			t.Fatalf("child: got %v, want death by signal", err)
		}
		b, want := p.Frontend(1), uint64(10*(lives+1))
		if got := b.Load(Requests(APIRankd, OutcomeOK)); got != want {
			t.Fatalf("after %d lives: got %d requests, want %d", lives+1, got, want)
		}
		if got := p.Read().Stage(StageTotal); got.Count != want || got.Sum != 1000*want {
			t.Fatalf("after %d lives: got %d observations of %d, want %d of %d", lives+1, got.Count, got.Sum, want, 1000*want)
		}
		if got := b.Gauge(PendingRows); got != 10 {
			t.Fatalf("got %d rows pending, want 10", got)
		}
		b.ClearGauges()
		if got := b.Gauge(PendingRows); got != 0 {
			t.Fatalf("got %d rows pending after the clearing, want 0", got)
		}
	}
}

func TestI3ForeignPagesAreRefused(t *testing.T) {
	_, file := create(t)
	image := make([]byte, pageBytes)
	if _, err := file.ReadAt(image, 0); err != nil {
		t.Fatal(err)
	}
	attachImage := func(change func(b []byte) []byte) error {
		fd, err := unix.MemfdCreate("rankd-test", unix.MFD_CLOEXEC)
		if err != nil {
			t.Fatal(err)
		}
		f := os.NewFile(uintptr(fd), "image")
		defer f.Close()
		if _, err := f.Write(change(append([]byte(nil), image...))); err != nil {
			t.Fatal(err)
		}
		p, err := Attach(fd)
		if err == nil {
			err = p.Close()
		}
		return err
	}
	if err := attachImage(func(b []byte) []byte { return b }); err != nil {
		t.Fatalf("attach an unchanged image: %v", err)
	}
	for name, change := range map[string]func(b []byte) []byte{
		"I3/empty":      func(b []byte) []byte { return nil },
		"I3/truncated":  func(b []byte) []byte { return b[:len(b)-1] },
		"I3/unready":    func(b []byte) []byte { clear(b[:8]); return b },
		"I3/version":    func(b []byte) []byte { b[8]++; return b },
		"I3/blockBytes": func(b []byte) []byte { b[12]++; return b },
		"I3/blockCount": func(b []byte) []byte { b[16]++; return b },
	} {
		t.Run(name, func(t *testing.T) {
			if err := attachImage(change); !errors.Is(err, ErrForeign) {
				t.Errorf("got %v, want ErrForeign", err)
			}
		})
	}
}

func TestOpenReadsThePageOfAnotherProcess(t *testing.T) {
	p, file := create(t)
	p.Owner().Inc(Batches)
	seen, err := Open(fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), file.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer seen.Close()
	if got := seen.Owner().Load(Batches); got != 1 {
		t.Errorf("got %d batches, want 1", got)
	}
}

func TestPageCannotShrink(t *testing.T) {
	_, file := create(t)
	if err := file.Truncate(0); err == nil {
		t.Error("got a page that can be truncated, want it sealed")
	}
}

func TestLayoutOffsets(t *testing.T) {
	var b Block
	for name, c := range map[string]struct{ got, want uintptr }{
		"I4/counters":   {unsafe.Offsetof(b.counters), 0},
		"I4/gauges":     {unsafe.Offsetof(b.gauges), 0x500},
		"I4/bucketRows": {unsafe.Offsetof(b.bucketRows), 0x580},
		"I4/sources":    {unsafe.Offsetof(b.bucketSources), 0x600},
		"I4/launches":   {unsafe.Offsetof(b.launches), 0x680},
		"I4/histograms": {unsafe.Offsetof(b.histograms), 0x780},
		"I4/block":      {unsafe.Sizeof(b), 0x3380},
		"I4/page":       {uintptr(pageBytes), 0x80 + 66*0x3380},
	} {
		if c.got != c.want {
			t.Errorf("%s: got %#x, want %#x", name, c.got, c.want)
		}
	}
	_, file := create(t)
	head := make([]byte, 24)
	if _, err := file.ReadAt(head, 0); err != nil {
		t.Fatal(err)
	}
	want := "72 6b 73 74 61 74 73 31 02 00 00 00 80 33 00 00 42 00 00 00 00 00 00 00"
	if got := fmt.Sprintf("% x", head); got != want {
		t.Errorf("header: got %s, want %s", got, want)
	}
}

func TestFamiliesDoNotOverlap(t *testing.T) {
	seen := map[Counter]string{}
	claim := func(c Counter, name string) {
		if other, taken := seen[c]; taken {
			t.Errorf("counter %d is %s and %s", c, other, name)
		}
		seen[c] = name
	}
	for a := range apiCount {
		for o := range outcomeCount {
			claim(Requests(a, o), a.String()+"/"+o.String())
		}
		claim(Rows(a), a.String()+"/rows")
		claim(RequestBytes(a), a.String()+"/request_bytes")
		claim(ReplyBytes(a), a.String()+"/reply_bytes")
	}
	for c := Panics; c < counterEnd; c++ {
		claim(c, fmt.Sprint("counter ", c))
	}
}

func TestHistogramBucketsCoverEveryValueOnce(t *testing.T) {
	for s := 1; s < sizeSlots; s++ {
		if sizeSlot(upper(s-1)+1) != s || sizeSlot(upper(s)) != min(s, sizeSlots-1) {
			t.Fatalf("bucket %d: got ends in buckets %d and %d", s, sizeSlot(upper(s-1)+1), sizeSlot(upper(s)))
		}
	}
	if sizeSlot(0) != 0 || sizeSlot(^uint64(0)) != sizeSlots-1 {
		t.Errorf("got 0 in bucket %d and the largest value in %d, want 0 and %d", sizeSlot(0), sizeSlot(^uint64(0)), sizeSlots-1)
	}
	for k := range 40 {
		if v := uint64(1) << k; upper(sizeSlot(v)) != v {
			t.Errorf("got %d in the bucket that ends at %d, want the end of a bucket", v, upper(sizeSlot(v)))
		}
	}
}

func TestQuantileIsAtMostAQuarterTooLarge(t *testing.T) {
	p, _ := create(t)
	r := rand.New(rand.NewPCG(1, 2))
	before := p.Read().Stage(StageWait)
	for range 1000 {
		v := int64(5 + r.Uint64()>>(24+r.IntN(38)))
		p.Frontend(0).Observe(StageWait, v)
		now := p.Read().Stage(StageWait)
		if q := int64(now.Since(before).Quantile(0.5)); q < v || q > v+v/4+1 {
			t.Fatalf("got quantile %d of the one value %d, want at most a quarter more", q, v)
		}
		before = now
	}
	if q := (Distribution{}).Quantile(0.99); q != 0 {
		t.Errorf("got %d as a quantile of nothing, want 0", q)
	}
}

func TestI2SumNeverDecreasesUnderConcurrentWriters(t *testing.T) {
	p, _ := create(t)
	var writers sync.WaitGroup
	for i := range 4 {
		writers.Go(func() {
			for range 5000 {
				p.Frontend(i).Inc(Requests(APIKServe, OutcomeInvalid))
			}
		})
	}
	last := uint64(0)
	for range 50 {
		now := p.Read().Frontends.Ended()
		if now < last {
			t.Fatalf("got %d requests after %d", now, last)
		}
		last = now
	}
	writers.Wait()
	if got := p.Read().Frontends.Requests(OutcomeInvalid); got != 20000 {
		t.Errorf("got %d requests, want 20000", got)
	}
}

func TestI5SeriesAreBoundedAndNamedWell(t *testing.T) {
	p, _ := create(t)
	c := NewCollector(p, 4)
	before := promtest.CollectAndCount(c)
	p.Owner().SetBucketRows(0, 64)
	p.Owner().Launch(0)
	for i := range 4 {
		p.Frontend(i).Inc(Requests(APIRankd, OutcomeOK))
		p.Frontend(i).Observe(StageTotal, 1<<50)
	}
	p.Owner().Observe(BatchSize, 64)
	if after := promtest.CollectAndCount(c); after != before+1 {
		t.Errorf("got %d series after traffic, want %d and one bucket", after, before)
	}
	problems, err := promtest.CollectAndLint(c)
	if err != nil || len(problems) > 0 {
		t.Errorf("got problems %v, %v, want none", problems, err)
	}
	want := `# HELP rankd_device_launches_total Launches by rows of the compiled batch size.
# TYPE rankd_device_launches_total counter
rankd_device_launches_total{bucket="64"} 1
# HELP rankd_frontend_requests_total Requests that ended, by frontend.
# TYPE rankd_frontend_requests_total counter
rankd_frontend_requests_total{frontend="0"} 1
rankd_frontend_requests_total{frontend="1"} 1
rankd_frontend_requests_total{frontend="2"} 1
rankd_frontend_requests_total{frontend="3"} 1
`
	if err := promtest.CollectAndCompare(c, strings.NewReader(want), "rankd_device_launches_total", "rankd_frontend_requests_total"); err != nil {
		t.Error(err)
	}
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(c)
	if _, err := reg.Gather(); err != nil {
		t.Error(err)
	}
}

func TestRecordingDoesNotAllocate(t *testing.T) {
	p, _ := create(t)
	b := p.Frontend(0)
	if n := testing.AllocsPerRun(100, func() {
		b.Inc(Requests(APIRankd, OutcomeOK))
		b.Add(Rows(APIRankd), 16)
		b.Observe(StageTotal, 12345)
		b.Move(PendingRows, 1)
	}); n != 0 {
		t.Errorf("got %v allocations, want 0", n)
	}
}

func TestProgramsTellWhereTheyCameFrom(t *testing.T) {
	p, _ := create(t)
	o := p.Owner()
	for i, s := range []Source{SourceBundle, SourceCompiler, SourceNone, SourceBundle} {
		o.SetSource(i, s)
		o.SetBucketRows(i, 1<<i)
	}
	o.SetSource(4, SourceCache) // its rows are not known yet
	o.SetBucketRows(5, 99)
	o.SetSource(5, 77) // as a later version might write it
	want := []Program{{1, SourceBundle}, {2, SourceCompiler}, {8, SourceBundle}}
	if got := o.Programs(); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	text := `# HELP rankd_programs Compiled batch sizes that are ready, by where their programs came from.
# TYPE rankd_programs gauge
rankd_programs{source="bundle"} 2
rankd_programs{source="cache"} 0
rankd_programs{source="compiler"} 1
`
	if err := promtest.CollectAndCompare(NewCollector(p, 1), strings.NewReader(text), "rankd_programs"); err != nil {
		t.Error(err)
	}
}
