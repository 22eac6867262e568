package load

import (
	"cmp"
	"slices"
	"sync"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"rankd/internal/h2wire"
)

// Latencies are recorded in microseconds with three digits; what is longer than the longest counts as that.
const (
	longest = 120 * time.Second
	digits  = 3
)

func newHistogram() *hdr.Histogram { return hdr.New(1, longest.Microseconds(), digits) }

// observe records a latency, rounded up to the next microsecond.
func observe(h *hdr.Histogram, d time.Duration) {
	us := (d + time.Microsecond - 1).Microseconds()
	_ = h.RecordValue(min(max(us, 1), longest.Microseconds())) // in range
}

func milliseconds(us int64) float64 { return float64(us) / 1e3 }

func latencyOf(h *hdr.Histogram) Latency {
	if h.TotalCount() == 0 {
		return Latency{}
	}
	return Latency{
		Mean: h.Mean() / 1e3, P50: milliseconds(h.ValueAtQuantile(50)), P90: milliseconds(h.ValueAtQuantile(90)),
		P95: milliseconds(h.ValueAtQuantile(95)), P99: milliseconds(h.ValueAtQuantile(99)),
		P999: milliseconds(h.ValueAtQuantile(99.9)), Max: milliseconds(h.Max()),
	}
}

// errorKey is what errors are counted by.
type errorKey struct {
	code   codes.Code
	reason string
}

// tally is what one worker has counted. All of it is about timed requests, but for inWindow.
type tally struct {
	timed, ok, failed, mismatches uint64
	inWindow                      uint64 // replies that were right and came within the window
	difference                    float64
	latency                       *hdr.Histogram
	lag                           *hdr.Histogram // of an open loop
	errors                        map[errorKey]*Error
	mismatch                      string // the first one
}

func newTally() tally {
	return tally{latency: newHistogram(), lag: newHistogram(), errors: map[errorKey]*Error{}}
}

func (t *tally) fail(code codes.Code, text string, details []byte) {
	t.failed++
	key := errorKey{code, reasonOf(details)}
	e := t.errors[key]
	if e == nil {
		e = &Error{Code: code.String(), Reason: key.reason, Text: text}
		t.errors[key] = e
	}
	e.Count++
}

// failReply counts a refusal.
func (t *tally) failReply(r *h2wire.Reply) { t.fail(r.Code, r.Text, r.Details) }

// reasonOf is the reason in a status' ErrorInfo.
func reasonOf(details []byte) string {
	if len(details) == 0 {
		return ""
	}
	var s statuspb.Status
	if proto.Unmarshal(details, &s) != nil {
		return ""
	}
	for _, d := range s.GetDetails() {
		var info errdetails.ErrorInfo
		if d.MessageIs(&info) && d.UnmarshalTo(&info) == nil {
			return info.GetReason()
		}
	}
	return ""
}

// add adds what another worker has counted.
func (t *tally) add(o *tally) {
	t.timed += o.timed
	t.ok += o.ok
	t.failed += o.failed
	t.mismatches += o.mismatches
	t.inWindow += o.inWindow
	t.difference = max(t.difference, o.difference)
	t.latency.Merge(o.latency)
	t.lag.Merge(o.lag)
	t.mismatch = cmp.Or(t.mismatch, o.mismatch)
	for key, e := range o.errors {
		if have := t.errors[key]; have != nil {
			have.Count += e.Count
		} else {
			t.errors[key] = e
		}
	}
}

// list gives the errors, the most frequent first.
func (t *tally) list() []Error {
	var list []Error
	for _, e := range t.errors {
		list = append(list, *e)
	}
	slices.SortFunc(list, func(a, b Error) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Code, b.Code), cmp.Compare(a.Reason, b.Reason))
	})
	return list
}

// second is what a worker has seen in the second that runs.
type second struct {
	number     int
	ok, failed uint64
	latency    *hdr.Histogram
}

// seconds gathers the seconds of all workers. Histograms of those that are over for all are turned into figures, since a long run
// has many.
type seconds struct {
	mu   sync.Mutex
	open map[int]*second
	done []Second
}

// keepSeconds is by how much workers may lag behind each other.
const keepSeconds = 5

// add takes a worker's second and clears it for the next one.
func (s *seconds) add(w *second) {
	s.mu.Lock()
	defer s.mu.Unlock()
	have := s.open[w.number]
	if have == nil {
		have = &second{number: w.number, latency: newHistogram()}
		s.open[w.number] = have
	}
	have.ok += w.ok
	have.failed += w.failed
	have.latency.Merge(w.latency)
	w.ok, w.failed = 0, 0
	w.latency.Reset()
	s.close(w.number - keepSeconds)
}

// close turns the seconds before the given one into figures.
func (s *seconds) close(before int) {
	for n, x := range s.open {
		if n < before {
			l := latencyOf(x.latency)
			s.done = append(s.done, Second{Second: n, OK: x.ok, Failed: x.failed, P50: l.P50, P99: l.P99, Max: l.Max})
			delete(s.open, n)
		}
	}
}

// all returns the seconds in their order.
func (s *seconds) all() []Second {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.close(1<<62 - 1)
	slices.SortFunc(s.done, func(a, b Second) int { return cmp.Compare(a.Second, b.Second) })
	return s.done
}
