package supervisor

import (
	"slices"
	"time"

	"rankd/internal/stats"
)

// Sample is what the server did in about a second.
type Sample struct {
	At       time.Time `json:"at"`
	Requests float64   `json:"requests_per_second"`
	Rows     float64   `json:"rows_per_second"`
	Refused  float64   `json:"refused_per_second"` // for want of room or time
	P50      float64   `json:"p50_ms"`             // from the first byte of a request to the last of its reply; 0: there was none
	P99      float64   `json:"p99_ms"`
	Queue    int64     `json:"queue_rows"` // admitted and not yet answered
	Batch    float64   `json:"rows_per_batch"`
	CPU      float64   `json:"cpu_cores"` // of all processes
	Launches int64     `json:"launches_in_flight"`
}

// maxSamples is ten minutes of them.
const maxSamples = 600

// overloaded are the outcomes of a server that is offered more than it can do.
var overloaded = []stats.Outcome{stats.OutcomeFrontendPendingFull, stats.OutcomeServerTotalQueueFull, stats.OutcomeDeadlineUnreachable}

// sampleOf is the difference of two readings of the counters.
func sampleOf(old, recent *stats.Snapshot, at time.Time, took time.Duration) Sample {
	seconds := took.Seconds()
	rate := func(read func(*stats.Snapshot) uint64) float64 { return float64(read(recent)-read(old)) / seconds }
	s := Sample{
		At: at, Queue: recent.Frontends.Gauge(stats.PendingRows), Launches: recent.Owner.Gauge(stats.LaunchesInFlight),
		Requests: rate(func(x *stats.Snapshot) uint64 { return x.Frontends.Ended() }),
		Rows:     rate(func(x *stats.Snapshot) uint64 { return x.Frontends.Rows() }),
		Refused:  rate(refusedOf),
	}
	if d := recent.Stage(stats.StageTotal).Since(old.Stage(stats.StageTotal)); d.Count > 0 {
		s.P50, s.P99 = float64(d.Quantile(0.5))/1e6, float64(d.Quantile(0.99))/1e6
	}
	if n := recent.Owner.Counter(stats.Batches) - old.Owner.Counter(stats.Batches); n > 0 {
		s.Batch = float64(recent.Owner.Counter(stats.BatchRows)-old.Owner.Counter(stats.BatchRows)) / float64(n)
	}
	return s
}

func refusedOf(x *stats.Snapshot) (n uint64) {
	for _, o := range overloaded {
		n += x.Frontends.Requests(o)
	}
	return n
}

// keepSample adds a sample to those that the page shows. The list that was stored is never changed: handlers read it.
func (s *server) keepSample(x Sample) {
	var old []Sample
	if p := s.samples.Load(); p != nil {
		old = *p
	}
	list := append(slices.Clone(old[max(0, len(old)+1-maxSamples):]), x)
	s.samples.Store(&list)
}

// lately are the samples so far, the oldest first.
func (s *server) lately() []Sample {
	if p := s.samples.Load(); p != nil {
		return *p
	}
	return nil
}

// overload notices when requests begin to be refused for want of room or time, and when that is over.
type overload struct {
	since   time.Time // zero: nothing is refused
	last    time.Time // when something was refused last
	refused uint64    // at the begin
}

// overAfter is how long nothing must be refused for an overload to be over.
const overAfter = 10 * time.Second

// watchOverload tells the begin and the end of an overload, each once.
func (l *loop) watchOverload(old, recent *stats.Snapshot, now time.Time) {
	o := &l.overload
	if n := refusedOf(recent); n > refusedOf(old) {
		if o.last = now; o.since.IsZero() {
			o.since, o.refused = now, refusedOf(old)
			l.log.Warn("requests are refused: more is offered than can be done", "reasons", reasonsBetween(old, recent))
		}
		return
	}
	if !o.since.IsZero() && now.Sub(o.last) >= overAfter {
		l.log.Info("requests are no longer refused", "refused", refusedOf(recent)-o.refused, seconds("after", o.last.Sub(o.since)))
		*o = overload{}
	}
}

func reasonsBetween(old, recent *stats.Snapshot) (names []string) {
	for _, o := range overloaded {
		if recent.Frontends.Requests(o) > old.Frontends.Requests(o) {
			names = append(names, o.String())
		}
	}
	return names
}
