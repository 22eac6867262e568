package frontend

import (
	"time"

	"rankd/internal/stats"
)

// meter counts what the frontend does for clients, in its block of the shared page. Warming up is not part of that: else
// each restart would add requests that nobody has sent.
type meter struct {
	block *stats.Block
}

// api is the counter family of an API.
func (a API) stats() stats.API {
	if a == APIModelInfer {
		return stats.APIKServe
	}
	return stats.APIRankd
}

func (m *meter) arrived(a API, size int) {
	if a == apiWarm {
		return
	}
	m.block.Add(stats.RequestBytes(a.stats()), uint64(size))
}

func (m *meter) admitted(a API, rows int, decode time.Duration) {
	if a == apiWarm {
		return
	}
	m.block.Add(stats.Rows(a.stats()), uint64(rows))
	m.block.Observe(stats.StageDecode, int64(decode))
}

func (m *meter) lookedUp(a API, d time.Duration) {
	if a != apiWarm {
		m.block.Observe(stats.StageLookup, int64(d))
	}
}

// ended counts a call by its outcome; err is nil when it was scored.
func (m *meter) ended(a API, err *Error) {
	if a != apiWarm {
		m.block.Inc(stats.Requests(a.stats(), outcome(err)))
	}
}

func (m *meter) replied(a API, size int, total, reply time.Duration) {
	if a == apiWarm {
		return
	}
	m.block.Add(stats.ReplyBytes(a.stats()), uint64(size))
	m.block.Observe(stats.StageTotal, int64(total))
	m.block.Observe(stats.StageReply, int64(reply))
}

func (m *meter) panicked() { m.block.Inc(stats.Panics) }

func (m *meter) gauges(pendingRows, calls int64, draining bool) {
	m.block.Set(stats.PendingRows, pendingRows)
	m.block.Set(stats.InFlightCalls, calls)
	var d int64
	if draining {
		d = 1
	}
	m.block.Set(stats.Draining, d)
}

// outcome is the counter that a reply belongs to.
func outcome(err *Error) stats.Outcome {
	if err == nil {
		return stats.OutcomeOK
	}
	return refusalOf(err.Reason).outcome
}
