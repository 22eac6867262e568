package tables

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"rankd/model"
)

// fixed bags of width 8 with hot ids a row.
func fixed(hot int, ids ...int64) Bags {
	return Bags{Values: ids64(ids...), Width: 8, Hot: hot, Step: hot}
}

// reference pools a bag in float64, written from the formulas and not from the kernel.
func reference(s *Set, table int, ids []int64, weights []float64, element int) float64 {
	sp := s.tables[table]
	total, divisor := 0.0, 0.0
	for i, id := range ids {
		w := 1.0
		if weights != nil {
			w = weights[i]
		}
		rows := int64(sp.rows)
		x := 0.0
		switch inside := id >= 0 && id < rows; {
		case inside:
			x = float64(value(table, id, element))
		case sp.policy == clamp && id < 0:
			x = float64(value(table, 0, element))
		case sp.policy == clamp:
			x = float64(value(table, rows-1, element))
		case sp.policy == hashMod:
			x = float64(value(table, ((id%rows)+rows)%rows, element))
		}
		total += w * x
		if sp.combiner == sqrtN {
			divisor += w * w
		} else {
			divisor += w
		}
	}
	switch {
	case sp.combiner == sum:
		return total
	case divisor == 0:
		return 0
	case sp.combiner == mean:
		return total / divisor
	}
	return total / math.Sqrt(divisor)
}

func close32(got float32, want float64) bool {
	return math.Abs(float64(got)-want) <= 1e-5*max(1, math.Abs(want))
}

// Every row of T4 shows which table and which id it came from.
func TestEachIDReadsItsRow(t *testing.T) {
	s := newSet(t, t4)
	var bags []Bags
	var ids []int64
	for r := range int64(1000) {
		ids = append(ids, r)
	}
	for range t4 {
		bags = append(bags, fixed(1, ids...))
	}
	if err := s.Validate(bags, 1000); err != nil {
		t.Fatal(err)
	}
	got := lookup(t, s, bags, 1000)
	for r := range 1000 {
		for table := range t4 {
			for k := range 8 {
				if x, want := float(got[r*s.strides[0]+64*table:], k), value(table, int64(r), k); x != want {
					t.Fatalf("row %d table %d element %d: got %v, want %v", r, table, k, x, want)
				}
			}
		}
	}
}

// All combiners, policies, widths, forms and weights against the reference, in one random model after another.
func TestLookupAgreesWithTheReference(t *testing.T) {
	var specs []spec
	for _, c := range model.Combiners() {
		for _, p := range model.IDPolicies() {
			specs = append(specs, spec{int64(50 + len(specs)), 1 + 5*len(specs), c, p})
		}
	}
	s := newSet(t, specs)
	var p Plan
	var h Shared
	for seed := range uint64(60) {
		t.Run("seed="+strconv.FormatUint(seed, 10), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 0))
			rows := 1 + rng.IntN(9)
			bags := make([]Bags, len(specs))
			ids := make([][][]int64, len(specs)) // table, row
			weights := make([][][]float64, len(specs))
			for i := range specs {
				bags[i], ids[i], weights[i] = randomBags(rng, &s.tables[i], rows)
			}
			if err := s.Validate(bags, rows); err != nil {
				t.Fatal(err)
			}
			first := rng.IntN(rows)
			n := 1 + rng.IntN(rows-first)
			from := rng.IntN(n)
			count := 1 + rng.IntN(n-from)
			stride := s.strides[0]
			dst := bytes.Repeat([]byte{0xCC}, 1+count*stride)[1:] // unaligned
			s.Resolve(&p, bags, first, n)
			s.Pool(&p, &h, bags) // does not touch what was resolved
			s.Sweep(&p, &h, [][]byte{dst}, from, count)
			for r := range count {
				for i := range specs {
					row := first + from + r
					for k := range specs[i].dim {
						got := float(dst[r*stride+s.tables[i].col.offset:], k)
						if want := reference(s, i, ids[i][row], weights[i][row], k); !close32(got, want) {
							t.Fatalf("row %d table %d (%v) element %d: got %v, want %v", row, i, specs[i], k, got, want)
						}
					}
					pad := dst[r*stride+s.tables[i].col.offset+4*specs[i].dim : r*stride+int(align(int64(s.tables[i].col.offset+4*specs[i].dim)))]
					if len(bytes.Trim(pad, "\xCC")) != 0 {
						t.Fatalf("row %d table %d: padding was written", row, i)
					}
				}
			}
		})
	}
}

// randomBags makes valid bags of one table in a random form, and what they mean.
func randomBags(rng *rand.Rand, tb *table, rows int) (b Bags, ids [][]int64, weights [][]float64) {
	b.Width = 4 + 4*rng.IntN(2)
	b.Broadcast = rng.IntN(4) == 0
	ragged := rng.IntN(2) == 0
	weighted := rng.IntN(2) == 0
	own := rows
	if b.Broadcast {
		own = 1
	}
	hot := rng.IntN(4)
	if ragged {
		b.Offsets = []int32{0}
	} else {
		b.First, b.Hot, b.Step = rng.IntN(3), hot, hot+rng.IntN(3)
	}
	var flat []int64
	var w []float32
	randomID := func() int64 {
		if tb.policy != reject && rng.IntN(3) == 0 {
			return int64(int32(rng.Uint32()))
		}
		return rng.Int64N(int64(tb.rows))
	}
	add := func() { flat, w = append(flat, randomID()), append(w, float32(rng.IntN(5)-1)) }
	if !ragged {
		for range b.First + (own-1)*b.Step + hot + rng.IntN(3) {
			add()
		}
	}
	for range own {
		if ragged {
			for range rng.IntN(5) {
				add()
			}
			b.Offsets = append(b.Offsets, int32(len(flat)))
		}
	}
	pad := rng.IntN(3)
	raw := make([]byte, pad)
	for _, id := range flat {
		if b.Width == 4 {
			raw = append(raw, ids32(int32(id))...)
		} else {
			raw = append(raw, ids64(id)...)
		}
	}
	b.Values = raw[pad:]
	if weighted {
		b.Weights = floats(w...)
		if b.Weights == nil {
			b.Weights = []byte{}
		}
	}
	for r := range rows {
		lo, hi := b.span(r)
		ids = append(ids, flat[lo:hi])
		var ws []float64
		if weighted {
			ws = []float64{}
			for _, x := range w[lo:hi] {
				ws = append(ws, float64(x))
			}
		}
		weights = append(weights, ws)
	}
	return b, ids, weights
}

func TestSpecialBags(t *testing.T) {
	for _, tt := range []struct {
		name     string
		combiner string
		bags     Bags
		want     float32 // element 0
	}{
		{"empty sum", model.CombinerSum, Bags{Width: 8, Offsets: []int32{0, 0}}, 0},
		{"empty mean", model.CombinerMean, Bags{Width: 8, Offsets: []int32{0, 0}}, 0},
		{"empty sqrtn", model.CombinerSqrtN, Bags{Width: 4, Offsets: []int32{0, 0}}, 0},
		{"no ids a bag", model.CombinerMean, Bags{Width: 8}, 0},
		{"mean of 2 and 4", model.CombinerMean, fixed(2, 2, 4), 3},
		{"sqrtn of 4 ids", model.CombinerSqrtN, fixed(4, 1, 2, 3, 4), 5},
		{"the same id twice", model.CombinerSum, fixed(2, 7, 7), 14},
		{"weighted sum", model.CombinerSum, Bags{Values: ids64(3, 5), Width: 8, Hot: 2, Step: 2, Weights: floats(2, -1)}, 1},
		{"weighted mean", model.CombinerMean, Bags{Values: ids64(3, 5), Width: 8, Hot: 2, Step: 2, Weights: floats(3, 1)}, 3.5},
		{"weighted sqrtn", model.CombinerSqrtN, Bags{Values: ids32(5, 10), Width: 4, Hot: 2, Step: 2, Weights: floats(3, 4)}, 11},
		{"weights that cancel", model.CombinerMean, Bags{Values: ids64(3, 5), Width: 8, Hot: 2, Step: 2, Weights: floats(1, -1)}, 0},
		{"weights of zero", model.CombinerSqrtN, Bags{Values: ids64(3, 5), Width: 8, Hot: 2, Step: 2, Weights: floats(0, 0)}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSet(t, []spec{{100, 2, tt.combiner, model.PolicyReject}})
			bags := []Bags{tt.bags}
			if err := s.Validate(bags, 1); err != nil {
				t.Fatal(err)
			}
			if got := float(lookup(t, s, bags, 1), 0); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestPolicies(t *testing.T) {
	ids := []int64{-1, 0, 9, 10, 23, -11, math.MinInt64, math.MaxInt64}
	for _, tt := range []struct {
		policy string
		want   []float32 // row read; -1: zeros
	}{
		{model.PolicyClamp, []float32{0, 0, 9, 9, 9, 0, 0, 9}},
		{model.PolicyZero, []float32{-1, 0, 9, -1, -1, -1, -1, -1}},
		{model.PolicyHashMod, []float32{9, 0, 9, 0, 3, 9, 2, 7}}, // Python: -2**63 % 10 == 2, (2**63-1) % 10 == 7
	} {
		t.Run(tt.policy, func(t *testing.T) {
			s := newSet(t, []spec{{10, 2, model.CombinerSum, tt.policy}})
			bags := []Bags{fixed(1, ids...)}
			if err := s.Validate(bags, len(ids)); err != nil {
				t.Fatal(err)
			}
			got := lookup(t, s, bags, len(ids))
			for i, want := range tt.want {
				x := float(got[i*s.strides[0]:], 1)
				if want < 0 && x != 0 || want >= 0 && x != want+1.0/16 {
					t.Errorf("id %d: got %v, want row %v", ids[i], x, want)
				}
			}
		})
	}
	t.Run("zero counts in the mean", func(t *testing.T) {
		s := newSet(t, []spec{{10, 1, model.CombinerMean, model.PolicyZero}})
		if got := float(lookup(t, s, []Bags{fixed(2, 8, 100)}, 1), 0); got != 4 {
			t.Errorf("got %v, want 4", got)
		}
	})
}

func TestRejectedIDIsNamed(t *testing.T) {
	s := newSet(t, t4)
	ok := fixed(2, 1, 2, 3, 4, 5, 6)
	for _, tt := range []struct {
		name string
		bad  Bags
		want IDError
	}{
		{"too large", fixed(2, 1, 2, 3, 1000, 5, 6), IDError{"t2", 1, 1, 1000, 1000}},
		{"negative", fixed(2, 1, 2, 3, 4, -5, 6), IDError{"t2", 2, 0, -5, 1000}},
		{"UINT64 max", fixed(2, -1, 2, 3, 4, 5, 6), IDError{"t2", 0, 0, -1, 1000}},
		{"negative of width 4", Bags{Values: ids32(1, 2, 3, 4, 5, -6), Width: 4, Hot: 2, Step: 2}, IDError{"t2", 2, 1, -6, 1000}},
		{"ragged", Bags{Values: ids64(1, 2, 3, 1<<40), Width: 8, Offsets: []int32{0, 1, 1, 4}}, IDError{"t2", 2, 2, 1 << 40, 1000}},
		{"packed", Bags{Values: ids64(1, 9999, 2, 3, 9999, 4, 5, 9999, 5000), Width: 8, First: 2, Hot: 1, Step: 3}, IDError{"t2", 2, 0, 5000, 1000}},
		{"broadcast", Bags{Values: ids64(0, 7000), Width: 8, Hot: 2, Step: 2, Broadcast: true}, IDError{"t2", 0, 1, 7000, 1000}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got *IDError
			if err := s.Validate([]Bags{ok, ok, tt.bad, ok}, 3); !errors.As(err, &got) || *got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

// In a table of more than 2^32 rows a negative id of width 4 is still no row.
func TestNegativeNarrowIDInAHugeTable(t *testing.T) {
	tb := table{rows: 1 << 33, stride: 64, policy: zeroRow}
	b := Bags{Values: ids32(1, -1), Width: 4, Hot: 2, Step: 2}
	if got := tb.firstOutside(&b, 0, 2); got != 1 {
		t.Errorf("first outside: got %d, want 1", got)
	}
	dst := make([]uint64, 2)
	tb.resolve(dst, &b, 0, 7)
	if dst[0] != 64 || dst[1] != 7 {
		t.Errorf("addresses: got %v, want [64 7]", dst)
	}
}

func TestIllDescribedBagsAreRefused(t *testing.T) {
	s := newSet(t, t4[:1])
	huge := math.MaxInt
	for _, tt := range []struct {
		name string
		bags []Bags
		rows int
	}{
		{"too few tables", nil, 1},
		{"too many tables", []Bags{fixed(1, 1), fixed(1, 1)}, 1},
		{"negative rows", []Bags{fixed(1, 1)}, -1},
		{"width 0", []Bags{{Values: ids64(1), Hot: 1, Step: 1}}, 1},
		{"odd bytes", []Bags{{Values: make([]byte, 9), Width: 8, Hot: 1, Step: 1}}, 1},
		{"too short", []Bags{fixed(1, 1, 2)}, 3},
		{"hot overflows", []Bags{{Values: ids64(1), Width: 8, Hot: huge, Step: huge, First: huge}}, 2},
		{"step overflows", []Bags{{Values: ids64(1, 2), Width: 8, Hot: 1, Step: huge}}, 2},
		{"negative first", []Bags{{Values: ids64(1, 2), Width: 8, First: -1, Hot: 1, Step: 1}}, 1},
		{"offsets go down", []Bags{{Values: ids64(1, 2), Width: 8, Offsets: []int32{0, 2, 1}}}, 2},
		{"offset beyond", []Bags{{Values: ids64(1, 2), Width: 8, Offsets: []int32{0, 3}}}, 1},
		{"negative offset", []Bags{{Values: ids64(1, 2), Width: 8, Offsets: []int32{-1, 2}}}, 1},
		{"offsets for other rows", []Bags{{Values: ids64(1, 2), Width: 8, Offsets: []int32{0, 2}}}, 2},
		{"too few weights", []Bags{{Values: ids64(1, 2), Width: 8, Hot: 1, Step: 1, Weights: floats(1)}}, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := s.Validate(tt.bags, tt.rows); !errors.Is(err, ErrBags) {
				t.Errorf("got %v, want %v", err, ErrBags)
			}
		})
	}
	if err := s.Validate([]Bags{{Width: 8}}, 0); err != nil {
		t.Errorf("no rows: got %v", err)
	}
}

// A broadcast bag gives each row what a bag of its own would, to the bit.
func TestBroadcastEqualsRepetition(t *testing.T) {
	specs := []spec{
		{100, 5, model.CombinerMean, model.PolicyReject},
		{100, 20, model.CombinerSum, model.PolicyReject},
		{100, 1, model.CombinerSqrtN, model.PolicyReject},
	}
	s := newSet(t, specs)
	once := []Bags{fixed(3, 5, 7, 11), fixed(1, 1, 2, 3, 4), fixed(2, 98, 99)}
	once[0].Broadcast, once[2].Broadcast = true, true
	each := []Bags{fixed(3, 5, 7, 11, 5, 7, 11, 5, 7, 11, 5, 7, 11), once[1], fixed(2, 98, 99, 98, 99, 98, 99, 98, 99)}
	if err := errors.Join(s.Validate(once, 4), s.Validate(each, 4)); err != nil {
		t.Fatal(err)
	}
	if got, want := lookup(t, s, once, 4), lookup(t, s, each, 4); !bytes.Equal(got, want) {
		t.Errorf("got %x\nwant %x", got, want)
	}
	once[1] = fixed(3, 1, 2, 3)
	once[1].Broadcast = true
	if got, want := lookup(t, s, once, 4), lookup(t, s, repeated(once, 4), 4); !bytes.Equal(got, want) {
		t.Errorf("all of them: got %x\nwant %x", got, want)
	}
}

// repeated gives every row of broadcast bags of fixed hotness a bag of its own.
func repeated(bags []Bags, rows int) []Bags {
	all := slices.Clone(bags)
	for i := range all {
		if b := &all[i]; b.Broadcast {
			b.Values, b.Broadcast = bytes.Repeat(b.Values, rows), false
		}
	}
	return all
}

// A request is looked up chunk by chunk; its broadcast bags are read by Pool and by nothing else.
func TestI10BroadcastBagsAreReadOnce(t *testing.T) {
	const rows, chunk, dim = 40, 16, 16 // a vector is a line
	s := newSet(t, []spec{
		{100, dim, model.CombinerSum, model.PolicyReject},
		{100, dim, model.CombinerMean, model.PolicyReject},
		{100, dim, model.CombinerSum, model.PolicyReject},
	})
	own := make([]int64, 2*rows)
	for i := range own {
		own[i] = int64(i)
	}
	bags := []Bags{fixed(3, 5, 7, 11), fixed(2, 98, 99), fixed(2, own...)}
	bags[0].Broadcast, bags[1].Broadcast = true, true
	if err := s.Validate(bags, rows); err != nil {
		t.Fatal(err)
	}
	want := lookup(t, s, repeated(bags, rows), rows)

	counted, read := *s, 0
	fastest := kernels()[0].tiles
	count := func(dst, mem *byte, addrs *uint64, lens *uint32, bags, ahead int, weights, factor *float32, tail int) {
		read += idsOf(lens, bags)
		if fastest != nil {
			fastest[float32s][0](dst, mem, addrs, lens, bags, ahead, weights, factor, tail)
		}
	}
	counted.kernel = kernel{name: "counting", tiles: &[forms]tiles{{count}}}
	var p Plan
	var h Shared
	counted.Pool(&p, &h, bags)
	if read != 3+2 || h.Bags() != 2 || len(h.copies) != 1 {
		t.Errorf("Pool: got %d rows read for %d bags in %d copies, want 5 for 2 in 1: they are neighbours", read, h.Bags(), len(h.copies))
	}
	read = 0
	got := bytes.Repeat([]byte{0xCC}, rows*s.strides[0])
	for first := 0; first < rows; first += chunk {
		n := min(chunk, rows-first)
		counted.Resolve(&p, bags, first, n)
		counted.Sweep(&p, &h, [][]byte{got[first*s.strides[0]:]}, 0, n)
	}
	if read != 2*rows {
		t.Errorf("chunks: got %d rows read, want %d, those of the table with bags of its own", read, 2*rows)
	}
	if fastest != nil && !bytes.Equal(got, want) {
		t.Errorf("got %x\nwant %x", got, want)
	}
}

// Additions happen in the order of the ids: in float32 another order would give another sum.
func TestAdditionsAreInOrder(t *testing.T) {
	s := newSet(t, []spec{{4, 1, model.CombinerSum, model.PolicyReject}})
	mem := slices.Clone(s.mem)
	rows := []float32{1e8, 1, -1e8, 1}
	for i, x := range rows {
		copy(mem[s.layout.tables[0].offset+int64(64*i):], floats(x))
	}
	changed := *s
	changed.mem = mem
	for _, tt := range []struct {
		ids  []int64
		want float32
	}{{[]int64{0, 1, 2, 3}, 1}, {[]int64{0, 2, 1, 3}, 2}} {
		if got := float(lookup(t, &changed, []Bags{fixed(4, tt.ids...)}, 1), 0); got != tt.want {
			t.Errorf("I6: ids %v: got %v, want %v", tt.ids, got, tt.want)
		}
	}
}

// I7: signalling a multiplication by one would turn an infinity times zero or a signalling value into something else; the
// plan simply has no factors.
func TestUnweightedSumHasNoFactors(t *testing.T) {
	s := newSet(t, t4)
	bags := []Bags{fixed(1, 1), fixed(1, 1), fixed(1, 1), fixed(1, 1)}
	var p Plan
	s.Resolve(&p, bags, 0, 1)
	for _, c := range p.each.columns {
		if c.weighted || c.scaled {
			t.Errorf("I7: column %+v", c)
		}
	}
	if len(p.each.weights) != 0 || len(p.each.scales) != 0 {
		t.Errorf("I7: %d weights and %d scales, want none", len(p.each.weights), len(p.each.scales))
	}
}

func TestMisusedPlanPanics(t *testing.T) {
	s, other := newSet(t, t4[:1]), newSet(t, t4[:1])
	var p Plan
	s.Resolve(&p, []Bags{fixed(1, 1, 2)}, 0, 2)
	row := func(n int) [][]byte { return [][]byte{make([]byte, n*s.strides[0])} }
	shared := fixed(1, 1)
	shared.Broadcast = true
	var left Plan
	var h, foreign Shared
	s.Resolve(&left, []Bags{shared}, 0, 2)
	s.Pool(&left, &h, []Bags{shared})
	other.Pool(&left, &foreign, []Bags{shared})
	for _, tt := range []struct {
		name string
		f    func()
	}{
		{"another set's plan", func() { other.Sweep(&p, nil, row(2), 0, 2) }},
		{"more rows than resolved", func() { s.Sweep(&p, nil, row(3), 0, 3) }},
		{"from wraps", func() { s.Sweep(&p, nil, row(2), 1, math.MaxInt) }},
		{"short array", func() { s.Sweep(&p, nil, row(1), 0, 2) }},
		{"no array", func() { s.Sweep(&p, nil, nil, 0, 2) }},
		{"missing bags", func() { s.Resolve(&p, nil, 0, 1) }},
		{"missing bags to pool", func() { s.Pool(&p, &h, nil) }},
		{"no vectors of broadcast bags", func() { s.Sweep(&left, nil, row(2), 0, 2) }},
		{"forgotten vectors", func() { s.Sweep(&left, new(Shared), row(2), 0, 2) }},
		{"another set's vectors", func() { s.Sweep(&left, &foreign, row(2), 0, 2) }},
		{"vectors of bags that are not broadcast", func() { s.Sweep(&p, &h, row(2), 0, 2) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("got no panic")
				}
			}()
			tt.f()
		})
	}
}

func TestLookupDoesNotAllocate(t *testing.T) {
	s := newSet(t, []spec{
		{1000, 8, model.CombinerSum, model.PolicyReject},
		{1000, 8, model.CombinerMean, model.PolicyHashMod},
		{1000, 8, model.CombinerSqrtN, model.PolicyClamp},
	})
	bags := []Bags{
		fixed(2, 1, 2, 3, 4, 5, 6),
		{Values: ids32(1, 2000, 3), Width: 4, Offsets: []int32{0, 1, 1, 3}, Weights: floats(1, 2, 3)},
		{Values: ids64(7, -8), Width: 8, Hot: 2, Step: 2, Broadcast: true},
	}
	var p Plan
	var h Shared
	dst := [][]byte{make([]byte, 3*s.strides[0])}
	run := func() {
		if err := s.Validate(bags, 3); err != nil {
			t.Fatal(err)
		}
		s.Pool(&p, &h, bags)
		s.Resolve(&p, bags, 0, 3)
		s.Sweep(&p, &h, dst, 0, 3)
		h.Reset()
	}
	run()
	if n := testing.AllocsPerRun(100, run); n != 0 {
		t.Errorf("I8: got %v allocations, want 0", n)
	}
}
