package frontend

import (
	"rankd/internal/faults"
	"rankd/tables"
)

// gatherer is the scratch memory of one goroutine that looks up rows.
type gatherer struct {
	plan   tables.Plan
	first  int // rows of the call that the plan covers: [first, first+n)
	n      int
	hold   hold
	window [][]byte // hold.Arrays from the row that is written next
}

func newGatherer(sh shape) *gatherer {
	return &gatherer{
		hold:   hold{Arrays: make([][]byte, sh.arrays)},
		window: make([][]byte, sh.arrays),
	}
}

// submit looks up and commits rows of k while there is room and the inline budget lasts, then leaves the rest to the gather
// workers. It reports whether the request is still needed.
//
// A large call is given to the workers first, where processors are idle: they and the caller then take its chunks in turns. A call
// that finds others waiting for room goes behind them without trying.
func (c *Core) submit(k *call) (retained bool) {
	if k.query.Broadcast {
		c.pool(k)
	}
	hungry := c.starved()
	if !hungry {
		if c.spreads(k) {
			k.mu.Lock()
			c.enqueue(k, false)
		}
		hungry = !c.submitInline(k)
	}
	k.mu.Lock()
	k.gathering--
	rest := k.err == nil && k.rest() > 0
	switch {
	case rest && !k.queued:
		c.enqueue(k, hungry)
	case rest || k.gathering > 0:
		k.mu.Unlock() // a worker settles it
	default:
		k.settle()
		return false
	}
	return true
}

// enqueue leaves what nobody has taken of k to the workers. It is called with k.mu held and releases it.
func (c *Core) enqueue(k *call, hungry bool) {
	k.queued, k.hungry = true, hungry
	c.queue.entered(k.rest(), hungry)
	k.mu.Unlock() // still queued, so nobody recycles it before it is pushed
	c.queue.push(k)
}

// spreadBytes is the size of a request from which on the workers' wake-up is cheap beside its lookups. Size stands for the number
// of ids: 16 KiB are some thousand, or some hundred microseconds.
const spreadBytes = 16 << 10

// spreads reports whether workers should help with k from the start: it is large, and processors of this process have no lookups to
// do. Where all are busy help would only cost wake-ups.
func (c *Core) spreads(k *call) bool {
	return k.size >= c.spread && k.rows > c.reservable() && int(c.gathering.Load())+2 <= c.threads
}

// pool looks up the bags that serve every row of k, once and before a row of k is handed out. Whoever gathers for k copies the
// vectors. A worker that looked them up for its own chunk would do so for every chunk: between two chunks of a call it serves others.
func (c *Core) pool(k *call) {
	var err *Error
	defer func() {
		if err != nil {
			k.abort(err)
		}
	}()
	defer c.rescue(&err)
	g := c.gathers.Get().(*gatherer)
	defer c.gathers.Put(g)
	c.tables.Pool(&g.plan, &k.shared, k.query.Bags)
}

// submitInline places the first chunks of k without waiting. False means that the region had no room for all of them.
func (c *Core) submitInline(k *call) bool {
	g := c.gathers.Get().(*gatherer)
	defer c.gathers.Put(g)
	g.n = 0
	c.gathering.Add(1)
	defer c.gathering.Add(-1)
	for range c.cfg.InlineChunks {
		first, n := c.take(k)
		if n == 0 {
			break
		}
		if placed := c.place(g, k, first, n, false); placed < n {
			c.putBack(k, first+placed, n-placed)
			return false
		}
	}
	c.deliver()
	return true
}

// take hands the next rows of k to its submitter: [first, first+n). n is 0 when there are none or the call failed.
func (c *Core) take(k *call) (first, n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.err != nil {
		return 0, 0
	}
	first, n = k.take(c.reservable())
	if k.queued {
		c.queue.took(n)
	}
	return first, n
}

// putBack returns rows that the submitter of k took and found no room for. They are the next ones that a worker takes.
func (c *Core) putBack(k *call, first, n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.spare, k.spares = first, n
	if k.queued {
		c.queue.took(-n)
		if !k.hungry {
			k.hungry = true
			c.queue.hungry.Add(1)
		}
	}
}

// reservable is how many rows one reservation asks for.
func (c *Core) reservable() int {
	if c.shape.whole {
		return c.shape.capacity
	}
	return c.shape.chunk
}

// starved reports whether calls are waiting for room in the region.
func (c *Core) starved() bool { return c.space.blocked.Load() > 0 || c.queue.hungry.Load() > 0 }

// gatherLoop is a gather worker: it takes the next chunk of the call at the head of the queue, puts the call back at the
// tail, and sees to it that the chunk finds its place. So calls take turns chunk by chunk, and a call with a single chunk
// waits for at most one chunk of each other call.
func (c *Core) gatherLoop() {
	defer c.done.Done()
	g := newGatherer(c.shape)
	for k := c.queue.pop(); k != nil; k = c.queue.pop() {
		k.mu.Lock()
		rest := k.rest()
		if k.err != nil {
			k.queued = false
			c.queue.left(rest, k.hungry)
			k.settle()
			continue
		}
		first, n := k.take(c.reservable()) // 0 if the submitter took the last ones
		k.gathering++
		c.queue.took(n)
		more := n < rest
		if !more {
			k.queued = false
			c.queue.left(0, k.hungry)
		}
		k.mu.Unlock()
		if more {
			c.queue.push(k)
		}
		g.n = 0
		c.gathering.Add(1)
		c.place(g, k, first, n, true) // less than n only if the call failed
		c.gathering.Add(-1)
		k.mu.Lock()
		k.gathering--
		k.settle()
		c.deliver()
	}
}

// place looks up rows [first, first+n) of k and commits them. When there is no room it stops, or with wait sleeps until
// there is some. It returns how many rows it placed: fewer than n if there was no room, or if the call failed.
func (c *Core) place(g *gatherer, k *call, first, n int, wait bool) (placed int) {
	for placed < n {
		at := first + placed
		if err := c.resolve(g, k, at, first+n); err != nil { // before the reservation, which must be short
			k.abort(err)
			return placed
		}
		k.reserving()
		if !c.ring.Reserve(&g.hold, n-placed, c.shape.whole, k, k.tag(at, c.now())) {
			if !wait || !c.awaitRoom(g, k, n-placed, at) {
				k.unreserve()
				return placed
			}
		}
		c.fill(g, k, at, first+n)
		placed += g.hold.N // before the commit: the hold is the ring's afterwards
		c.ring.Commit(&g.hold)
	}
	return placed
}

// awaitRoom sleeps until it has a reservation, or returns false because the call failed.
func (c *Core) awaitRoom(g *gatherer, k *call, n, at int) bool {
	c.space.blocked.Add(1)
	defer c.space.blocked.Add(-1)
	for {
		seen := c.space.generation()
		c.ring.AnnounceSpace()
		if c.stopping() {
			k.abort(errDraining)
		}
		if k.failed() {
			return false
		}
		if c.ring.Reserve(&g.hold, n, c.shape.whole, k, k.tag(at, c.now())) {
			return true
		}
		c.space.wait(seen)
	}
}

// resolve makes g's plan cover row at of the call; end is the last row that is wanted, exclusive.
func (c *Core) resolve(g *gatherer, k *call, at, end int) (err *Error) {
	if at >= g.first && at < g.first+g.n {
		return nil
	}
	defer c.rescue(&err)
	g.n = 0 // nothing, if the next line panics
	n := min(end-at, c.shape.chunk)
	c.tables.Resolve(&g.plan, k.query.Bags, at, n)
	g.first, g.n = at, n
	return nil
}

// fill writes the reserved rows, which are rows [at, at+hold.N) of the call, in pieces of a chunk. After a panic the rest
// stays as it is: rows are independent, and the scores of a failed call reach nobody.
func (c *Core) fill(g *gatherer, k *call, at, end int) {
	var err *Error
	defer func() {
		if err != nil {
			k.abort(err)
		}
	}()
	defer c.rescue(&err)
	for done := 0; done < g.hold.N; {
		row := at + done
		if err = c.resolve(g, k, row, end); err != nil {
			return
		}
		n := min(g.first+g.n-row, g.hold.N-done)
		for a, rows := range g.hold.Arrays {
			g.window[a] = rows[done*c.shape.strides[a]:]
		}
		c.tables.Sweep(&g.plan, &k.shared, g.window, row-g.first, n)
		faults.Hit("frontend.half_written") // the pooled vectors are in their rows, the dense features are not
		k.query.CopyDense(g.window, row, n)
		done += n
	}
}

// abort fails the call from inside a gatherer, which still counts itself and settles afterwards.
func (k *call) abort(err *Error) {
	k.mu.Lock()
	if k.err == nil {
		k.err = err
	}
	k.mu.Unlock()
}
