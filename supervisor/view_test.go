package supervisor

import (
	"encoding/xml"
	"errors"
	"io"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"rankd/internal/stats"
)

func TestSamplesAreDifferencesAndTheOldestGo(t *testing.T) {
	page, file, err := stats.Create()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	defer page.Close()
	l := &loop{server: &server{page: page, log: slog.New(slog.DiscardHandler)}}
	l.self.PID = os.Getpid()
	now := time.Unix(1000, 0)
	for range maxSamples + 10 {
		l.sample(now)
		now = now.Add(2 * time.Second)
		page.Frontend(3).Add(stats.Requests(stats.APIKServe, stats.OutcomeOK), 100)
		page.Frontend(3).Add(stats.Rows(stats.APIKServe), 1600)
		page.Frontend(0).Add(stats.Requests(stats.APIRankd, stats.OutcomeServerTotalQueueFull), 4)
		page.Frontend(0).Set(stats.PendingRows, 7)
		page.Owner().Add(stats.Batches, 2)
		page.Owner().Add(stats.BatchRows, 64)
		page.Frontend(0).Observe(stats.StageTotal, 3_000_000)
	}
	list := l.lately()
	if len(list) != maxSamples {
		t.Fatalf("got %d samples, want %d", len(list), maxSamples)
	}
	x := list[len(list)-1]
	if x.Requests != 52 || x.Rows != 800 || x.Refused != 2 || x.Queue != 7 || x.Batch != 32 || x.P99 < 3 || x.P99 > 3.75 {
		t.Errorf("got %+v", x)
	}
	if gap := x.At.Sub(list[0].At); gap != 2*time.Second*(maxSamples-1) {
		t.Errorf("got samples over %v", gap)
	}
	u, ok := usageOf(os.Getpid())
	if !ok || u.anon <= 0 {
		t.Errorf("got usage %+v, %v of this process", u, ok)
	}
	if _, ok := usageOf(1 << 30); ok {
		t.Error("got usage of a process that is not there")
	}
}

func TestOverloadIsToldOnceAtBothEnds(t *testing.T) {
	page, file, err := stats.Create()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	defer page.Close()
	events := newEventLog(slog.DiscardHandler)
	l := &loop{server: &server{page: page, log: slog.New(events), happened: events.kept}}
	now := time.Unix(1000, 0)
	for second := range 60 {
		if second > 5 && second < 20 && second%3 != 0 { // with gaps, which do not end it
			page.Frontend(1).Add(stats.Requests(stats.APIRankd, stats.OutcomeFrontendPendingFull), 10)
		}
		l.sample(now.Add(time.Duration(second) * time.Second))
	}
	list := l.happened.all()
	if len(list) != 2 {
		t.Fatalf("got events %v, want a begin and an end", list)
	}
	if end, begin := list[0], list[1]; begin.Level != "WARN" || !strings.Contains(begin.Text, "reasons [frontend_pending_full]") || end.Level != "INFO" || !strings.Contains(end.Text, "refused 90") {
		t.Errorf("got %v", list)
	}
}

func TestEventsAreTheRecordsThatMatter(t *testing.T) {
	e := newEventLog(slog.DiscardHandler)
	log := slog.New(e)
	log.Info("child started", "pid", 1) // of no interest
	log.Info("child is ready", "child", "frontend 0", "pid", 7, "unknown", "left out")
	child := log.With("role", "deviceowner", "pid", 9)
	for range 3 {
		child.Warn("hm", "error", errors.New("broken"))
	}
	child.Error(strings.Repeat("€", 1000))
	list := e.kept.all()
	if len(list) != 3 || list[2].Text != "child is ready: child frontend 0, pid 7" || list[1].Text != "hm: role deviceowner, pid 9, error broken" || list[1].Times != 3 {
		t.Errorf("got %v", list)
	}
	if n := len(list[0].Text); n > maxEventText+len("…") || !strings.HasSuffix(list[0].Text, "…") {
		t.Errorf("got an event of %d bytes", n)
	}
	for range 3 * maxEvents {
		log.Warn("a")
		log.Warn("b")
	}
	if got := len(e.kept.all()); got != maxEvents {
		t.Errorf("got %d events, want %d", got, maxEvents)
	}
}

func TestChartsAreWellFormedAndScaled(t *testing.T) {
	v := newView(&Status{}, nil, time.Unix(0, 0))
	now := time.Unix(1000, 0)
	for i := range 400 {
		v.Samples = append(v.Samples, Sample{At: now.Add(time.Duration(i) * time.Second), Rows: float64(i), P99: float64(i % 7)})
	}
	for _, samples := range [][]Sample{nil, v.Samples[:1], v.Samples} {
		v.Samples = samples
		for _, c := range v.Charts() {
			c.Title += `<"&>`
			d := xml.NewDecoder(strings.NewReader(string(c.SVG())))
			for {
				if _, err := d.Token(); err == io.EOF {
					break
				} else if err != nil {
					t.Fatalf("%s with %d samples: %v\n%s", c.Title, len(samples), err, c.SVG())
				}
			}
		}
	}
	for value, want := range map[float64]float64{0: 1, 0.03: 0.05, 1: 1, 1.5: 2, 49: 50, 51: 100, 12345: 20000} {
		if got := niceTop(value); got != want {
			t.Errorf("scale of %v: got %v, want %v", value, got, want)
		}
	}
	if got := Spark([]float64{0, 1, 2, 4}, 3); got != "▂▄█" {
		t.Errorf("got %q", got)
	}
	sizes := batchSizes(stats.Distribution{})
	if len(sizes) != 13 || sizeBars(sizes) != "" {
		t.Errorf("got %d sizes and a picture of nothing", len(sizes))
	}
	sizes[3].Batches, sizes[4].Batches = 10, 1
	if got := string(sizeBars(sizes)); strings.Count(got, "<rect") != 13 || !strings.Contains(got, "10 batches of 5 to 8 rows") {
		t.Errorf("got %s", got)
	}
}
