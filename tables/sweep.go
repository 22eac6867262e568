package tables

import "fmt"

// Sweep pools rows [from, from+n) of the plan into packed rows: dst[a] is packed array a from the first of these rows on, n
// times the array's stride long, at any alignment. Broadcast bags are copied from shared, which Pool filled for the same request; it
// may be nil if there are none. Only the slots of tables are written.
//
// A plan of another Set, rows that it does not have, vectors of another number of bags than the plan left out, or a dst that is too
// short panic before anything is written.
func (s *Set) Sweep(p *Plan, shared *Shared, dst [][]byte, from, n int) {
	if p.set != s || from < 0 || n < 0 || n > p.rows-from {
		panic(fmt.Sprintf("tables: sweep rows %d+%d of a plan of %d", from, n, p.rows))
	}
	if shared.Bags() != p.left || p.left > 0 && shared.set != s {
		panic(fmt.Sprintf("tables: sweep with the vectors of %d broadcast bags, want %d of the same set", shared.Bags(), p.left))
	}
	if len(dst) != len(s.strides) {
		panic(fmt.Sprintf("tables: sweep into %d arrays, want %d", len(dst), len(s.strides)))
	}
	for a, stride := range s.strides {
		if len(dst[a])/stride < n {
			panic(fmt.Sprintf("tables: sweep %d rows into array %d of %d bytes, want %d", n, a, len(dst[a]), n*stride))
		}
	}
	bag := from * len(p.each.columns)
	id := p.start[from]
	p.args = sweepArgs{
		mem: s.mem, addrs: p.each.addrs[id:], lens: p.each.lens[bag:],
		columns: p.each.columns, rows: n, dst: dst, strides: s.strides, wide: p.scratch(s),
	}
	if p.each.weighted {
		p.args.weights = p.each.weights[id:]
	}
	if p.each.scaled {
		p.args.scales = p.each.scales[bag:]
	}
	s.kernel.sweep(&p.args)
	p.args.dst = nil // the rows are the caller's again
	if p.left > 0 {
		shared.copyTo(dst, s.strides, n)
	}
}
