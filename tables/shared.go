package tables

import (
	"fmt"
	"slices"
)

// Shared is the pooled vectors of a request's broadcast bags: Pool looks them up once a request, and Sweep copies them into every
// row, whichever chunk and slab the row is in. Its zero value is ready and has no vectors. It holds on to no more than the vectors of
// all tables, and is used again. Between Pool and Reset any number of goroutines may sweep with it.
type Shared struct {
	set     *Set
	bags    int
	vectors []byte
	copies  []broadcast
}

// broadcast says where a run of Shared.vectors goes in every packed row.
type broadcast struct {
	from, array, offset, bytes int
}

// Bags is how many bags were pooled. A nil Shared has none.
func (h *Shared) Bags() int {
	if h == nil {
		return 0
	}
	return h.bags
}

// Reset forgets the vectors and keeps the memory.
func (h *Shared) Reset() { h.set, h.bags = nil, 0 }

// Pool pools the broadcast bags of a request into h, in place of what h held. p lends scratch memory; its rows stay resolved.
//
// The bags should have been validated; what Resolve says of those that were not holds here too.
func (s *Set) Pool(p *Plan, h *Shared, bags []Bags) {
	if len(bags) != len(s.tables) {
		panic(fmt.Sprintf("tables: pool %d bags with %d tables", len(bags), len(s.tables)))
	}
	h.set, h.bags, h.copies = s, 0, h.copies[:0]
	p.once.reset()
	at := 0
	for i := range bags {
		b, t := &bags[i], &s.tables[i]
		if !b.Broadcast {
			continue
		}
		c, bytes := t.col, t.col.bytes()
		c.array, c.offset = 0, at
		p.once.column(i, c, t, b)
		h.place(broadcast{at, t.col.array, t.col.offset, bytes})
		at += int(align(int64(bytes)))
	}
	if h.bags == 0 {
		return
	}
	p.once.row(s, bags, 0)
	p.once.pad(s)
	h.vectors = slices.Grow(h.vectors[:0], at)[:at]
	p.one[0], p.step[0] = h.vectors, at
	p.args = sweepArgs{
		mem: s.mem, addrs: p.once.addrs, weights: p.once.weights, lens: p.once.lens, scales: p.once.scales,
		columns: p.once.columns, rows: 1, dst: p.one[:], strides: p.step[:], wide: p.scratch(s),
	}
	s.kernel.sweep(&p.args)
	p.one[0], p.args.dst = nil, nil // h is the caller's
}

// place adds a vector. Vectors that are neighbours here and in the row become one copy.
func (h *Shared) place(c broadcast) {
	h.bags++
	if n := len(h.copies); n > 0 {
		l := &h.copies[n-1]
		if l.from+l.bytes == c.from && l.array == c.array && l.offset+l.bytes == c.offset {
			l.bytes += c.bytes
			return
		}
	}
	h.copies = append(h.copies, c)
}

// copyTo writes the vectors into n packed rows.
func (h *Shared) copyTo(dst [][]byte, strides []int, n int) {
	for _, c := range h.copies {
		vectors, rows, stride := h.vectors[c.from:c.from+c.bytes], dst[c.array], strides[c.array]
		for r := range n {
			copy(rows[r*stride+c.offset:], vectors)
		}
	}
}
