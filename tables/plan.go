package tables

import (
	"fmt"
	"math"
	"slices"
)

// Plan is the resolved bags of some rows. Its zero value is ready; it is scratch that grows to the largest request and is
// then used again. It belongs to one goroutine at a time and to no Set in particular.
type Plan struct {
	set   *Set
	rows  int
	each  bagList // bags that every row has its own of
	start []int   // index in each.addrs of the first address of each row, and the end
	left  int     // broadcast bags, whose vectors come from a Shared

	// Scratch of calls.
	once bagList // of Pool
	wide []byte  // sums before they are rounded to bfloat16
	args sweepArgs
	one  [1][]byte
	step [1]int
}

// bagList is resolved bags in the form that the kernel takes.
type bagList struct {
	tables   []int // of each column
	columns  []column
	addrs    []uint64
	weights  []float32 // empty if no column is weighted
	lens     []uint32
	scales   []float32 // empty if no column is scaled
	weighted bool
	scaled   bool
}

// Bytes is the memory that the plan holds on to.
func (p *Plan) Bytes() int {
	n := cap(p.wide) + 8*cap(p.start)
	for _, l := range []*bagList{&p.each, &p.once} {
		n += 8*cap(l.addrs) + 4*cap(l.weights) + 4*cap(l.lens) + 4*cap(l.scales)
	}
	return n
}

// Rows is the number of rows that the last Resolve put into the plan.
func (p *Plan) Rows() int { return p.rows }

// Resolve turns the ids of rows [first, first+n) of a request into row addresses, with policies applied and the factors of
// weights and combiners computed. Broadcast bags are left out: they are the same for every row, and Pool's. The plan replaces what p
// held; the bags are not needed afterwards.
//
// The bags should have been validated. If they were not, an id outside a table with policy reject reads zeros and a bag that
// does not lie in its values is empty. A number of bags other than that of tables panics.
func (s *Set) Resolve(p *Plan, bags []Bags, first, n int) {
	if len(bags) != len(s.tables) || first < 0 || n < 0 {
		panic(fmt.Sprintf("tables: resolve %d bags, rows %d+%d, with %d tables", len(bags), first, n, len(s.tables)))
	}
	p.set, p.rows, p.left = s, n, 0
	p.each.reset()
	p.start = append(p.start[:0], 0)
	for i := range bags {
		if bags[i].Broadcast {
			p.left++
		} else {
			p.each.column(i, s.tables[i].col, &s.tables[i], &bags[i])
		}
	}
	for row := first; row < first+n; row++ {
		p.each.row(s, bags, row)
		p.start = append(p.start, len(p.each.addrs))
	}
	p.each.pad(s)
}

// scratch is room for the widest sum that is rounded.
func (p *Plan) scratch(s *Set) []byte {
	p.wide = slices.Grow(p.wide[:0], s.wide)[:s.wide]
	return p.wide
}

func (l *bagList) reset() {
	l.tables, l.columns = l.tables[:0], l.columns[:0]
	l.addrs, l.weights, l.lens, l.scales = l.addrs[:0], l.weights[:0], l.lens[:0], l.scales[:0]
	l.weighted, l.scaled = false, false
}

// column adds table i to the columns of the list.
func (l *bagList) column(i int, c column, t *table, b *Bags) {
	c.weighted, c.scaled = b.Weights != nil, t.combiner != sum
	l.tables = append(l.tables, i)
	l.columns = append(l.columns, c)
	l.weighted = l.weighted || c.weighted
	l.scaled = l.scaled || c.scaled
}

// row adds one row: the bags of all columns.
func (l *bagList) row(s *Set, bags []Bags, row int) {
	for c, i := range l.tables {
		t, b := &s.tables[i], &bags[i]
		lo, hi := b.span(row)
		from := len(l.addrs)
		l.addrs = slices.Grow(l.addrs, hi-lo)[:from+hi-lo]
		t.resolve(l.addrs[from:], b, lo, s.zero)
		if l.weighted {
			l.weigh(b, lo, hi)
		}
		factor := float32(1)
		if l.columns[c].scaled {
			var ok bool
			if factor, ok = t.factor(b, lo, hi); !ok {
				l.addrs = l.addrs[:from] // a divisor of zero gives zeros, as an empty bag does
				l.weights = l.weights[:min(from, len(l.weights))]
				hi = lo
			}
		}
		l.lens = append(l.lens, uint32(hi-lo))
		if l.scaled {
			l.scales = append(l.scales, factor)
		}
	}
}

// weigh adds the weights of a bag, or ones that no kernel reads, to stay parallel to addrs.
func (l *bagList) weigh(b *Bags, lo, hi int) {
	for i := lo; i < hi; i++ {
		w := float32(1)
		if b.Weights != nil {
			w = math.Float32frombits(le.Uint32(b.Weights[4*i:]))
		}
		l.weights = append(l.weights, w)
	}
}

// pad adds what a kernel may prefetch.
func (l *bagList) pad(s *Set) {
	for range prefetchPad {
		l.addrs = append(l.addrs, s.zero)
	}
}

// resolve writes the addresses of ids [lo, lo+len(dst)) of b.
func (t *table) resolve(dst []uint64, b *Bags, lo int, zero uint64) {
	if b.Width == 4 {
		v := b.Values[4*lo:]
		for j := range dst {
			id := uint64(int32(le.Uint32(v[4*j:])))
			if id < t.rows {
				dst[j] = t.base + id*t.stride
			} else {
				dst[j] = t.outside(id, zero)
			}
		}
		return
	}
	v := b.Values[8*lo:]
	for j := range dst {
		id := le.Uint64(v[8*j:])
		if id < t.rows {
			dst[j] = t.base + id*t.stride
		} else {
			dst[j] = t.outside(id, zero)
		}
	}
}

// outside is the address for an id, sign-extended, that is not a row.
func (t *table) outside(id, zero uint64) uint64 {
	switch t.policy {
	case clamp:
		if int64(id) < 0 {
			return t.base
		}
		return t.base + (t.rows-1)*t.stride
	case hashMod:
		m := int64(id) % int64(t.rows)
		if m < 0 {
			m += int64(t.rows)
		}
		return t.base + uint64(m)*t.stride
	case zeroRow, reject: // reject: Validate has refused these ids, or was not asked
		return zero
	}
	panic(fmt.Sprintf("tables: policy %d of table %q has no rule for id %d", t.policy, t.name, int64(id)))
}

// factor is what the sum of a bag is multiplied by under mean and sqrtn; ok is false where the divisor is zero.
func (t *table) factor(b *Bags, lo, hi int) (factor float32, ok bool) {
	divisor := float64(hi - lo)
	if b.Weights != nil {
		divisor = 0
		for i := lo; i < hi; i++ {
			w := float64(math.Float32frombits(le.Uint32(b.Weights[4*i:])))
			if t.combiner == sqrtN {
				w *= w
			}
			divisor += w
		}
	}
	if t.combiner == sqrtN {
		divisor = math.Sqrt(divisor)
	}
	if divisor == 0 {
		return 0, false
	}
	return float32(1 / divisor), true
}
