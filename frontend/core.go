package frontend

import (
	"context"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"rankd/frontend/bind"
	"rankd/frontend/trace"
	"rankd/model"
	"rankd/shmring"
	"rankd/tables"
)

// API says in which format the request of a call is written and its reply is wanted.
type API uint8

// The formats that are scored.
const (
	APIPredict    API = iota // rankd.v1.PredictRequest
	APIModelInfer            // inference.ModelInferRequest
	apiWarm                  // rankd.v1.PredictRequest of the warm-up, which no client has sent: it is not counted
)

// Responder is the transport's end of a call.
type Responder interface {
	// Reply ends the call; it is called exactly once for each ScoreUnary, from any goroutine, also before ScoreUnary
	// returns. On success body is the encoded reply message, valid only during Reply, and err is nil; otherwise err says
	// why and body is nil. Reply must not block and must not call into the Core.
	Reply(body []byte, err *Error)
}

// Marked is a Responder of a call that may be traced.
type Marked interface {
	// Marks are those of the call, nil if it is not traced. The core writes them until Reply, and those of its own goroutine until
	// ScoreUnary returns.
	Marks() *trace.Marks
}

// lookup is the part of tables.Set that the core uses.
type lookup interface {
	Validate(bags []tables.Bags, rows int) error
	Pool(p *tables.Plan, shared *tables.Shared, bags []tables.Bags)
	Resolve(p *tables.Plan, bags []tables.Bags, first, n int)
	Sweep(p *tables.Plan, shared *tables.Shared, dst [][]byte, from, n int)
}

// Core takes scoring requests from the transports and sees each of them to exactly one reply. See the package comment.
type Core struct {
	cfg     Config
	log     *slog.Logger
	model   *model.Manifest
	binder  *bind.Binder
	tables  lookup
	ring    ring
	meter   *meter
	epoch   time.Time // what now counts from
	shape   shape
	life    time.Duration // longest life of a call
	threads int           // processors that goroutines of this process run on
	spread  int           // bytes of a request from which on idle workers help with it
	calls   sync.Pool     // *call
	gathers sync.Pool     // *gatherer

	draining atomic.Bool
	ready    atomic.Bool
	open     atomic.Int64 // calls admitted to ScoreUnary and not yet replied

	inflight  atomic.Int64 // request bytes held
	gathering atomic.Int32 // goroutines that look up rows

	queue waitQueue
	space spaceGate
	wheel wheel
	rate  rateMeter

	idle     chan struct{} // tokens: open fell to zero while draining
	batchEnd []func()      // called after a Poll that delivered
	onState  []func(bool)
	stop     chan struct{}
	stopOnce sync.Once
	done     sync.WaitGroup
}

// shape is what the core knows of the region and the packed rows.
type shape struct {
	arrays     int   // packed arrays a row
	scoreBytes int   // bytes of scores a row
	capacity   int   // rows a slab
	chunk      int   // rows of one reservation, unless whole
	strides    []int // bytes a row of each packed array
	whole      bool
}

// newCore makes a core; Start sets it going.
func newCore(cfg Config, m *model.Manifest, set lookup, r ring, sh shape, mt *meter, log *slog.Logger) (*Core, error) {
	b, err := bind.New(m, bind.Options{MaxRequestRows: cfg.MaxRequestRows})
	if err != nil {
		return nil, err
	}
	c := &Core{
		cfg: cfg, log: log, model: m, binder: b, tables: set, ring: r, meter: mt, shape: sh,
		threads: runtime.GOMAXPROCS(0), spread: spreadBytes, epoch: time.Now(), life: time.Duration(cfg.NoDeadlineMS) * time.Millisecond,
		idle: make(chan struct{}, 1), stop: make(chan struct{}),
	}
	c.calls.New = func() any { return newCall(c) }
	c.gathers.New = func() any { return newGatherer(sh) }
	c.queue.init()
	c.space.init()
	c.wheel.init()
	return c, nil
}

// OnBatchEnd registers f to be called after each delivery of finished batches, once all their replies were handed out, so
// that a transport can write them together. It must be called before Start.
func (c *Core) OnBatchEnd(f func()) { c.batchEnd = append(c.batchEnd, f) }

// OnState registers f to be called with Serving about ten times a second and whenever the bell rings. It must be called
// before Start; f must be cheap when nothing has changed.
func (c *Core) OnState(f func(serving bool)) { c.onState = append(c.onState, f) }

// Start begins the goroutines of the core: one that waits for the device, one that ends calls at their deadlines, and the
// gather workers. Their number does not depend on the number of calls.
func (c *Core) Start() {
	workers := c.cfg.GatherWorkers
	if workers == 0 {
		workers = min(c.threads, 8)
	}
	c.done.Add(2 + workers)
	go c.pollLoop()
	go c.sweepLoop()
	for range workers {
		go c.gatherLoop()
	}
}

// Close stops the goroutines and fails what is still open with "draining". The ring must outlive it.
func (c *Core) Close() {
	c.draining.Store(true)
	c.failAll(errDraining)
	c.stopOnce.Do(func() { close(c.stop) })
	c.queue.close()
	c.space.open() // after the stop: a worker sees one or the other
	c.ring.Wake()
	c.done.Wait()
	c.failAll(errDraining)
}

func (c *Core) stopping() bool {
	select {
	case <-c.stop:
		return true
	default:
		return false
	}
}

// SetReady says that the frontend has warmed itself; health is not SERVING before.
func (c *Core) SetReady() {
	c.ready.Store(true)
	c.ring.Wake() // the poll loop tells the others
}

// Serving reports whether new calls would be taken: ready, not draining, and a device owner that is up or started again at
// once after its death, which costs calls latency and no more.
func (c *Core) Serving() bool {
	owner := c.ring.OwnerState()
	return c.ready.Load() && !c.draining.Load() && !c.ring.Draining() && (owner == shmring.OwnerUp || owner == shmring.OwnerRestarting)
}

// Drain refuses new calls from now on and returns when the open ones have been replied to, or with ctx's error.
func (c *Core) Drain(ctx context.Context) error {
	c.draining.Store(true)
	for c.open.Load() > 0 {
		select {
		case <-c.idle:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// now is the time since the core was made, monotonic.
func (c *Core) now() time.Duration { return time.Since(c.epoch) }

// Ticket names one call of ScoreUnary for Cancel. The zero Ticket is that of a call that has ended.
type Ticket struct {
	call *call
	gen  uint64
	// Retained says that the request's bytes are still needed: they belong to the core until Reply. If it is false they
	// were free again when ScoreUnary returned.
	Retained bool
}

// Cancel ends the call early, if it is still open: no further rows are submitted, results are dropped, and Reply is called
// with a cancelled error as soon as no goroutine reads the request any more.
func (t Ticket) Cancel() { t.end(errCancelled) }

func (t Ticket) end(err *Error) {
	if t.call != nil {
		t.call.fail(t.gen, err)
	}
}

// ScoreUnary scores one request message and answers through r, exactly once. It does not block on the device: rows for
// which the region has room are looked up and submitted before it returns, the others follow from the gather workers.
//
// deadline is when the client stops waiting; the zero Time means that it did not say. request must not change until r.Reply
// is called, or until ScoreUnary returns if the ticket does not say Retained.
func (c *Core) ScoreUnary(api API, request []byte, deadline time.Time, r Responder) Ticket {
	now := c.now()
	c.open.Add(1)
	until := now + c.life
	if !deadline.IsZero() {
		until = min(until, deadline.Sub(c.epoch))
	}
	c.meter.arrived(api, len(request))
	k, err := c.admit(api, request, now, until)
	if err != nil {
		c.meter.ended(api, err)
		r.Reply(nil, err)
		c.closed()
		return Ticket{}
	}
	decoded := c.now()
	c.meter.admitted(api, k.rows, decoded-now)
	var marks *trace.Marks
	if m, ok := r.(Marked); ok {
		if marks = m.Marks(); marks != nil {
			marks.Decoded, marks.Rows = c.epoch.Add(decoded), k.rows
		}
	}
	k.marks = marks
	t := Ticket{call: k, gen: k.begin(r, now, until)}
	t.Retained = c.submit(k)
	looked := c.now()
	c.meter.lookedUp(api, looked-decoded)
	if marks != nil {
		marks.LookedUp = c.epoch.Add(looked)
	}
	return t
}

// admit takes the request whole or refuses it whole, before any lookup. Its rows and bytes are counted when it returns nil.
func (c *Core) admit(api API, request []byte, now, until time.Duration) (*call, *Error) {
	size := int64(len(request))
	if err := c.admitBytes(size, now, until); err != nil {
		return nil, err
	}
	k := c.calls.Get().(*call)
	err := k.prepare(api, request)
	if err == nil {
		if err = c.admitRows(k, now, until); err == nil {
			if err = k.validate(); err == nil { // after the caps: a full server does not pay for reading ids
				return k, nil
			}
			c.giveBackRows(k.rows)
		}
	}
	c.giveBackBytes(size)
	k.scrub()
	c.calls.Put(k)
	return nil, err
}

// checkModel says whether a request means the model that is served; an empty version means the served one.
func (c *Core) checkModel(name, version []byte) *Error {
	if string(name) != c.model.Name {
		return errNotServed("model", string(name), c.model.Name)
	}
	if len(version) != 0 && string(version) != c.model.Version {
		return errNotServed("version", string(version), c.model.Version)
	}
	return nil
}

// closed counts a call as replied.
func (c *Core) closed() {
	if c.open.Add(-1) == 0 && c.draining.Load() {
		select {
		case c.idle <- struct{}{}:
		default:
		}
	}
}
