package frontend

import (
	"runtime/debug"
	"sync"
	"time"

	"rankd/frontend/bind"
	"rankd/frontend/trace"
	"rankd/frontend/wire"
	"rankd/shmring"
	"rankd/tables"
)

// call is one request on its way: decoded, bound, looked up chunk by chunk, and answered once.
//
//	prepare ──► begin ──► taken chunk by chunk ──► all rows in ──► replied ──► recycled
//	                              │ fail: cancelled, expired, device error ──┘        ▲
//	                              └── rows in the region still come back ─────────────┘
//
// The naive way is to free everything when the client goes away. But the region holds this call as the receiver of rows
// that are being executed, and a gatherer may be reading the request. So a call that failed is answered at once and lives
// on until nobody refers to it: gathering, inflight and queued are those references. The object is then used for another
// request; gen tells tickets and timers of the old one apart.
//
// Rejected alternative: a context and a goroutine a call. They cost three allocations and a wake-up each, more than the
// lookup of a small request.
type call struct {
	core *Core

	mu  sync.Mutex
	gen uint64 // raised when the object is recycled

	// Set by prepare and begin, then read only.
	api       API
	request   []byte // the transport's; not read when rest() == 0 and gathering == 0
	size      int
	decoded   wire.Request
	query     bind.Query
	rows      int
	started   time.Duration
	responder Responder
	marks     *trace.Marks // nil: the call is not traced. They are the responder's, and not touched after its Reply

	shared tables.Shared // vectors of broadcast bags; filled by submit, then read only

	// Guarded by mu.
	next      int    // rows handed to gatherers, but for the spare ones
	spare     int    // first of the rows that submit took and gave back
	spares    int    // how many these are
	gathering int    // gatherers that hold rows of this call and read the request
	inflight  int    // chunks taken and not completed
	returned  int    // rows given back to the pending count
	queued    bool   // in the queue of waiting calls, or about to be
	hungry    bool   // went there because there was no room
	replied   bool   // Reply was called or is about to be
	replying  bool   // Reply runs
	err       *Error // why the call failed

	response wire.Response
	reply    []byte // laid out by begin; each chunk fills its own rows

	timer timerNode
	link  *call // next in the wait queue
}

func newCall(c *Core) *call {
	k := &call{core: c}
	k.response.Model, k.response.Version = c.model.Name, c.model.Version
	k.response.Columns = c.model.ScoreColumns()
	k.timer.call = k
	return k
}

// keepBytes is the largest buffer that a recycled call keeps: one huge request must not pin memory for ever.
const keepBytes = 1 << 20

// prepare decodes and binds the request. The call owns nothing yet; on error scrub it and put it back.
func (k *call) prepare(api API, request []byte) (err *Error) {
	defer k.core.rescue(&err)
	k.api, k.request, k.size = api, request, len(request)
	var e error
	switch api {
	case APIModelInfer:
		e = k.decoded.DecodeModelInfer(request)
	default:
		e = k.decoded.DecodePredict(request)
	}
	if e != nil {
		return asError(e)
	}
	c := k.core
	if err := c.checkModel(k.decoded.Model, k.decoded.Version); err != nil {
		return err
	}
	if e := c.binder.Bind(&k.decoded, &k.query); e != nil {
		return asError(e)
	}
	k.rows = k.query.Rows
	return nil
}

// validate checks every id of the request.
func (k *call) validate() (err *Error) {
	defer k.core.rescue(&err)
	if e := k.core.tables.Validate(k.query.Bags, k.rows); e != nil {
		return asError(e)
	}
	return nil
}

// rescue turns a panic of the decoder, the binder or a kernel into an internal error of the call at hand. The process
// goes on: a request must not take the others down.
func (c *Core) rescue(err **Error) {
	if p := recover(); p != nil {
		c.panicked(p)
		*err = errPanic
	}
}

func (c *Core) panicked(p any) {
	c.meter.panicked()
	c.log.Error("recovered from a panic", "panic", p, "stack", string(debug.Stack()))
}

// begin lays out the reply and makes the call live: from here on it is answered by settle.
func (k *call) begin(r Responder, now, until time.Duration) (gen uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.responder, k.started = r, now
	k.response.ID, k.response.Rows, k.response.Outputs = k.decoded.ID, k.rows, k.query.Outputs
	if k.api == APIModelInfer {
		k.reply = wire.AppendModelInferResponse(k.reply[:0], &k.response)
	} else {
		k.reply = wire.AppendPredictResponse(k.reply[:0], &k.response)
	}
	k.response.ID = nil // it lies in the request
	k.gathering = 1     // submit's own; keeps the call alive until it has decided who gathers
	k.core.wheel.add(&k.timer, until)
	return k.gen
}

// rest is how many rows no gatherer has taken. mu is held.
func (k *call) rest() int { return k.rows - k.next + k.spares }

// take hands the next rows to a gatherer: [first, first+n), n at most limit, 0 if there are none. mu is held.
func (k *call) take(limit int) (first, n int) {
	if k.spares > 0 {
		first, n = k.spare, min(limit, k.spares)
		k.spare, k.spares = k.spare+n, k.spares-n
		return first, n
	}
	first, n = k.next, min(limit, k.rows-k.next)
	k.next += n
	return first, n
}

// failed reports whether the call needs no more work.
func (k *call) failed() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.err != nil
}

// reserving counts a chunk that is about to be reserved; unreserve takes it back when there was no room.
func (k *call) reserving() {
	k.mu.Lock()
	k.inflight++
	k.mu.Unlock()
}

func (k *call) unreserve() {
	k.mu.Lock()
	k.inflight--
	k.mu.Unlock()
}

// A tag tells Complete which chunk it is: the first row, and when it was reserved, in µs since the call began.
const tagRowBits = 23 // --max-request-rows is below 2^23

func (k *call) tag(first int, now time.Duration) int {
	return int((now-k.started)/time.Microsecond)<<tagRowBits | first
}

func (k *call) untag(tag int) (first int, reserved time.Duration) {
	return tag & (1<<tagRowBits - 1), k.started + time.Duration(tag>>tagRowBits)*time.Microsecond
}

// Complete takes the scores of one chunk from the ring.
func (k *call) Complete(tag int, scores []byte, status shmring.Status) {
	c, width := k.core, k.core.shape.scoreBytes
	first, reserved := k.untag(tag) // while the chunk is out, started does not change
	c.rate.add(len(scores)/width, reserved, c.now())
	k.mu.Lock()
	k.inflight--
	rows := len(scores) / width
	k.returned += rows
	switch {
	case k.err != nil: // answered already, or about to be; the scores are nobody's
	case status != shmring.StatusOK:
		k.err = errDevice
	default:
		k.response.Fill(k.reply, first, scores)
	}
	k.settle()
	c.giveBackRows(rows)
}

// fail ends the call of that generation with err, unless it has ended.
func (k *call) fail(gen uint64, err *Error) {
	k.mu.Lock()
	if k.gen != gen || k.replied || k.err != nil {
		k.mu.Unlock()
		return
	}
	k.err = err
	wake := k.gathering > 0
	k.settle()
	if wake { // a gatherer may be waiting for room on behalf of this call
		k.core.space.open()
	}
}

// settle answers the call if that is due and recycles it if nobody refers to it any more. It is called with mu held after
// every change of the fields below mu, and releases mu.
func (k *call) settle() {
	complete := k.rest() == 0 && k.inflight == 0
	if !k.replied && k.gathering == 0 && (k.err != nil || complete) {
		k.replied, k.replying = true, true
		k.mu.Unlock()
		k.answer()
		k.mu.Lock()
		k.replying = false
	}
	over := k.replied && !k.replying && k.gathering == 0 && k.inflight == 0 && !k.queued
	if !over {
		k.mu.Unlock()
		return
	}
	k.gen++
	rest := k.rows - k.returned
	k.scrub()
	k.mu.Unlock()
	k.core.giveBackRows(rest)
	k.core.calls.Put(k)
}

// answer hands the reply or the error to the responder. Nothing else touches the reply: either no chunk is out, or the call
// failed and Complete leaves it alone.
func (k *call) answer() {
	c := k.core
	c.wheel.remove(&k.timer)
	c.giveBackBytes(int64(k.size))
	c.meter.ended(k.api, k.err)
	if k.err != nil {
		k.responder.Reply(nil, k.err)
	} else {
		ready := c.now()
		if k.marks != nil {
			k.marks.Scored = c.epoch.Add(ready)
		}
		k.responder.Reply(k.reply, nil)
		c.meter.replied(k.api, len(k.reply), ready-k.started, c.now()-ready)
	}
	c.closed()
}

// scrub prepares the object for its next request: no reference to the transport's memory stays.
func (k *call) scrub() {
	k.request, k.responder, k.marks, k.err = nil, nil, nil, nil
	k.decoded.Reset()
	k.query.Reset()
	k.shared.Reset()
	k.rows, k.next, k.spares, k.gathering, k.inflight, k.returned = 0, 0, 0, 0, 0, 0
	k.queued, k.hungry, k.replied, k.replying = false, false, false, false
	k.link = nil
	if cap(k.reply) > keepBytes {
		k.reply = nil
	}
}
