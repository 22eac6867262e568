package bind

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"rankd/frontend/wire"
	"rankd/internal/dtype"
	"rankd/model"
)

func TestFormsOfIDs(t *testing.T) {
	fixed, ragged := manifest(2, 1), manifest(0, 1)
	dense := []tensor{zeros("dense", dtype.Float32, 3, 13), zeros("age", dtype.Float32, 3)}
	t1 := i64("t1", []int64{3}, 7, 8, 9)
	two := [][]int64{{1, 2}, {3, -4}, {5, 6}}
	for _, c := range []struct {
		name string
		m    *model.Manifest
		ts   []tensor
		want [][]int64 // bags of t0
	}{
		{"own", fixed, []tensor{i64("t0", []int64{3, 2}, 1, 2, 3, -4, 5, 6), t1}, two},
		{"own int32", fixed, []tensor{i32("t0", []int64{3, 2}, 1, 2, 3, -4, 5, 6), t1}, two},
		{"own, hotness 1, [B,1]", fixed, []tensor{i64("t0", []int64{3, 2}, 1, 2, 3, -4, 5, 6), i32("t1", []int64{3, 1}, 7, 8, 9)}, two},
		{"packed", fixed, []tensor{i64("ids", []int64{3, 3}, 1, 2, 7, 3, -4, 8, 5, 6, 9)}, two},
		{"packed int32", fixed, []tensor{i32("ids", []int64{3, 3}, 1, 2, 7, 3, -4, 8, 5, 6, 9)}, two},
		{"lengths for a fixed table", fixed, []tensor{i64("t0.values", []int64{3}, 1, 2, 3), i32("t0.lengths", []int64{3}, 0, 3, 0), t1}, [][]int64{{}, {1, 2, 3}, {}}},
		{"lengths", ragged, []tensor{i64("t0.values", []int64{4}, 1, 2, 3, 4), i64("t0.lengths", []int64{3}, 1, 0, 3), t1}, [][]int64{{1}, {}, {2, 3, 4}}},
		{"lengths int32", ragged, []tensor{i32("t0.values", []int64{4}, 1, 2, 3, 4), i32("t0.lengths", []int64{3}, 1, 0, 3), t1}, [][]int64{{1}, {}, {2, 3, 4}}},
		{"offsets", ragged, []tensor{i32("t0.values", []int64{4}, 1, 2, 3, 4), i64("t0.offsets", []int64{4}, 0, 2, 2, 4), t1}, [][]int64{{1, 2}, {}, {3, 4}}},
		{"offsets int32", ragged, []tensor{i64("t0.values", []int64{4}, 1, 2, 3, 4), i32("t0.offsets", []int64{4}, 0, 2, 2, 4), t1}, [][]int64{{1, 2}, {}, {3, 4}}},
		{"no ids at all", ragged, []tensor{i64("t0.values", []int64{0}), i32("t0.offsets", []int64{4}, 0, 0, 0, 0), t1}, [][]int64{{}, {}, {}}},
		{"rectangle for a ragged table", ragged, []tensor{i64("t0", []int64{3, 2}, 1, 2, 3, -4, 5, 6), t1}, two},
		{"weights", ragged, []tensor{
			i64("t0.values", []int64{4}, 1, 2, 3, 4), i64("t0.lengths", []int64{3}, 1, 0, 3), f32("t0.weights", []int64{4}, 1, 2, 3, 4), t1,
		}, [][]int64{{1}, {}, {2, 3, 4}}},
		{"broadcast own", fixed, []tensor{i64("t0", []int64{1, 2}, 1, 2), t1}, [][]int64{{1, 2}, {1, 2}, {1, 2}}},
		{"broadcast lengths", ragged, []tensor{i64("t0.values", []int64{2}, 1, 2), i32("t0.lengths", []int64{1}, 2), t1}, [][]int64{{1, 2}, {1, 2}, {1, 2}}},
		{"broadcast offsets", ragged, []tensor{i64("t0.values", []int64{2}, 1, 2), i32("t0.offsets", []int64{2}, 0, 2), t1}, [][]int64{{1, 2}, {1, 2}, {1, 2}}},
		{"broadcast an empty bag", ragged, []tensor{i64("t0.values", []int64{0}), i32("t0.lengths", []int64{1}, 0), t1}, [][]int64{{}, {}, {}}},
	} {
		for _, p := range protocols {
			t.Run(c.name+"/"+p.name, func(t *testing.T) {
				b := binder(t, c.m, Options{MaxRequestRows: 3})
				var q Query
				if err := p.bind(t, b, &q, append(slices.Clone(dense), c.ts...)); err != nil {
					t.Fatal(err)
				}
				if got := bags(&q, 0); q.Rows != 3 || !reflect.DeepEqual(got, c.want) {
					t.Errorf("t0: got %d rows %v, want %v", q.Rows, got, c.want)
				}
				if got, want := bags(&q, 1), [][]int64{{7}, {8}, {9}}; !reflect.DeepEqual(got, want) {
					t.Errorf("t1: got %v, want %v", got, want)
				}
				if len(q.Outputs) != 2 {
					t.Errorf("got %d outputs, want all 2", len(q.Outputs))
				}
				if got, want := q.Bags[0].Weights != nil, c.name == "weights"; got != want {
					t.Errorf("weights: got %v, want %v", got, want)
				}
			})
		}
	}
}

func TestOneRowIsNotBroadcast(t *testing.T) {
	b := binder(t, manifest(2, 1), Options{})
	var q Query
	ts := []tensor{zeros("dense", dtype.Float32, 1, 13), zeros("age", dtype.Float32, 1), i64("ids", []int64{1, 3}, 1, 2, 3)}
	if err := protocols[0].bind(t, b, &q, ts); err != nil {
		t.Fatal(err)
	}
	if q.Rows != 1 || q.Broadcast || q.Bags[0].Broadcast || q.Bags[1].Broadcast {
		t.Errorf("got %d rows, broadcast %v: %v %v, want one row and none", q.Rows, q.Broadcast, q.Bags[0].Broadcast, q.Bags[1].Broadcast)
	}
}

func TestQuerySaysWhetherABagServesAllRows(t *testing.T) {
	b := binder(t, manifest(2, 1), Options{})
	var q Query
	for _, c := range []struct {
		t0, dense int64
		want      bool
	}{{1, 3, true}, {1, 1, true}, {3, 1, false}, {3, 3, false}} {
		ts := []tensor{
			zeros("dense", dtype.Float32, c.dense, 13), zeros("age", dtype.Float32, 3),
			zeros("t0", dtype.Int64, c.t0, 2), zeros("t1", dtype.Int64, 3),
		}
		if err := protocols[0].bind(t, b, &q, ts); err != nil {
			t.Fatal(err)
		}
		if q.Rows != 3 || q.Broadcast != c.want || q.Bags[0].Broadcast != c.want || q.Bags[1].Broadcast {
			t.Errorf("t0 of %d rows, dense of %d: got %d rows, broadcast %v", c.t0, c.dense, q.Rows, q.Broadcast)
		}
	}
	if q.Reset(); q.Broadcast {
		t.Error("after Reset: got broadcast")
	}
}

func TestOutputsAreSelected(t *testing.T) {
	b := binder(t, manifest(1), Options{})
	var r wire.Request
	ts := []tensor{zeros("dense", dtype.Float32, 1, 13), zeros("age", dtype.Float32, 1), zeros("t0", dtype.Int64, 1)}
	if err := r.DecodePredict(protocols[0].encode(t, ts)); err != nil {
		t.Fatal(err)
	}
	var q Query
	r.Outputs = [][]byte{[]byte("heads")}
	if err := b.Bind(&r, &q); err != nil || !reflect.DeepEqual(q.Outputs, []wire.Output{{Name: "heads", Width: 2, Column: 1}}) {
		t.Errorf("got %v, %v, want heads", q.Outputs, err)
	}
	r.Outputs = [][]byte{[]byte("Score")}
	want := `select output "Score": the model has no such output, want one of "score", "heads"`
	if err := b.Bind(&r, &q); err == nil || err.Error() != want {
		t.Errorf("got error %v, want %s", err, want)
	}
}

// packedRows is memory for rows of every packed array, filled with a canary.
func packedRows(b *Binder, rows int) [][]byte {
	var dst [][]byte
	for _, stride := range b.strides {
		dst = append(dst, slices.Repeat([]byte{0xa5}, rows*stride))
	}
	return dst
}

func float32At(b []byte, at int) float32 {
	return math.Float32frombits(binary.LittleEndian.Uint32(b[at:]))
}

func TestDenseConversions(t *testing.T) {
	bits := func(d dtype.DType, v ...uint64) tensor { // element 0, 1... of row 0; the others are zero
		in := zeros("dense", d, 1, 13)
		for i, x := range v {
			switch d.Size() {
			case 2:
				binary.LittleEndian.PutUint16(in.data[2*i:], uint16(x))
			case 4:
				binary.LittleEndian.PutUint32(in.data[4*i:], uint32(x))
			default:
				binary.LittleEndian.PutUint64(in.data[8*i:], x)
			}
		}
		return in
	}
	f64 := math.Float64bits
	for _, c := range []struct {
		name string
		in   tensor
		want []uint32 // bits; 0xffffffff: any NaN
	}{
		{"float32, bit by bit", bits(dtype.Float32, 0x3fc00000, 0x7fa00001, 0xffc12345, 0x80000000, 1), []uint32{0x3fc00000, 0x7fa00001, 0xffc12345, 0x80000000, 1}},
		{"float16", bits(dtype.Float16, 0x3e00, 0x8000, 0x7c00, 0xfc00, 1, 0x7e00), []uint32{0x3fc00000, 0x80000000, 0x7f800000, 0xff800000, 0x33800000, 0xffffffff}},
		{"bfloat16", bits(dtype.BFloat16, 0x3fc0, 0x8000, 0x7f80, 0x7fc0), []uint32{0x3fc00000, 0x80000000, 0x7f800000, 0xffffffff}},
		{
			"float64", bits(dtype.Float64, f64(1.5), f64(0.1), f64(1e300), f64(-1e300), f64(1e-300), f64(math.NaN()), f64(1+1.0/(1<<24)), f64(1+3.0/(1<<24))),
			[]uint32{0x3fc00000, 0x3dcccccd, 0x7f800000, 0xff800000, 0, 0xffffffff, 0x3f800000, 0x3f800002},
		},
	} {
		for _, p := range protocols {
			if p.name == "typed" && half([]tensor{c.in}) {
				continue
			}
			t.Run(c.name+"/"+p.name, func(t *testing.T) {
				b := binder(t, manifest(1), Options{})
				var q Query
				if err := p.bind(t, b, &q, []tensor{c.in, zeros("age", dtype.Float32, 1), zeros("t0", dtype.Int64, 1)}); err != nil {
					t.Fatal(err)
				}
				dst := packedRows(b, 1)
				q.CopyDense(dst, 0, 1)
				for i, want := range c.want {
					got := binary.LittleEndian.Uint32(dst[0][64+4*i:])
					if want == 0xffffffff {
						if !math.IsNaN(float64(math.Float32frombits(got))) {
							t.Errorf("element %d: got %#x, want a NaN", i, got)
						}
					} else if got != want {
						t.Errorf("element %d: got %#x, want %#x", i, got, want)
					}
				}
			})
		}
	}
}

// TestCopyDenseWritesItsSlotsOnly copies every range of rows, with and without broadcast, into rows full of canaries.
func TestCopyDenseWritesItsSlotsOnly(t *testing.T) {
	const rows = 5
	b := binder(t, manifest(1), Options{})
	dense, age := zeros("dense", dtype.Float64, rows, 13), zeros("age", dtype.Float32, 1, 1)
	for i := range rows * 13 {
		binary.LittleEndian.PutUint64(dense.data[8*i:], math.Float64bits(float64(i)))
	}
	binary.LittleEndian.PutUint32(age.data, math.Float32bits(42))
	var q Query
	if err := protocols[1].bind(t, b, &q, []tensor{age, dense, zeros("t0", dtype.Int64, rows)}); err != nil {
		t.Fatal(err)
	}
	for first := range rows {
		for n := range rows - first + 1 {
			dst := packedRows(b, n)
			q.CopyDense(dst, first, n)
			for row := range n {
				for c := range 13 {
					if got, want := float32At(dst[0], row*128+64+4*c), float32((first+row)*13+c); got != want {
						t.Fatalf("rows %d+%d: dense row %d column %d: got %v, want %v", first, n, row, c, got, want)
					}
				}
				if got := float32At(dst[1], row*64+8); got != 42 {
					t.Fatalf("rows %d+%d: age of row %d: got %v, want 42", first, n, row, got)
				}
				canaries := slices.Concat(dst[0][row*128:][:64], dst[0][row*128+64+52:][:12], dst[1][row*64:][:8], dst[1][row*64+12:][:52])
				if !slices.Equal(canaries, slices.Repeat([]byte{0xa5}, 136)) {
					t.Fatalf("rows %d+%d: something beside the slots of row %d was written", first, n, row)
				}
			}
		}
	}
}

// TestRandomRequestsKeepTheirIDs sends bags chosen at random in forms and orders chosen at random through one Query, for
// models that take turns.
func TestRandomRequestsKeepTheirIDs(t *testing.T) {
	g := rand.New(rand.NewPCG(5, 6))
	models := []*Binder{binder(t, manifest(3, 1, 2, 1), Options{}), binder(t, manifest(0, 2, 0, 1, 5), Options{}), binder(t, manifest(0), Options{})}
	var q Query
	for round := range 3000 {
		b := models[g.IntN(len(models))]
		rows := 1 + g.IntN(6)
		batch := func() int { // rows of one input
			if g.IntN(4) == 0 {
				return 1
			}
			return rows
		}
		ts := []tensor{zeros("dense", dtype.Float32, int64(rows), 13), zeros("age", dtype.Float32, int64(batch()))}
		want := make([][][]int64, len(b.tables))
		for i := range b.tables {
			n, hot := batch(), b.tables[i].Hotness
			ragged := hot == 0 || g.IntN(2) == 0
			var values, offsets, lengths []int64
			offsets = append(offsets, 0)
			for range n {
				size := hot
				if ragged {
					size = g.IntN(4)
				}
				bag := []int64{}
				for range size {
					bag = append(bag, int64(g.Int32())-1<<30)
				}
				want[i] = append(want[i], bag)
				values = append(values, bag...)
				lengths, offsets = append(lengths, int64(size)), append(offsets, int64(len(values)))
			}
			for len(want[i]) < rows {
				want[i] = append(want[i], want[i][0])
			}
			ints := func(name string, shape []int64, v []int64) tensor {
				if g.IntN(2) == 0 {
					return i64(name, shape, v...)
				}
				var small []int32
				for _, x := range v {
					small = append(small, int32(x))
				}
				return i32(name, shape, small...)
			}
			name := b.tables[i].Name
			switch {
			case !ragged:
				ts = append(ts, ints(name, []int64{int64(n), int64(hot)}, values))
			case g.IntN(2) == 0:
				ts = append(ts, ints(name+".values", []int64{int64(len(values))}, values), ints(name+".lengths", []int64{int64(n)}, lengths))
			default:
				ts = append(ts, ints(name+".values", []int64{int64(len(values))}, values), ints(name+".offsets", []int64{int64(n + 1)}, offsets))
			}
		}
		if g.IntN(2) == 0 {
			g.Shuffle(len(ts), func(i, j int) { ts[i], ts[j] = ts[j], ts[i] })
		}
		p := protocols[g.IntN(len(protocols))]
		if err := p.bind(t, b, &q, ts); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if q.Rows != rows {
			t.Fatalf("round %d: got %d rows, want %d", round, q.Rows, rows)
		}
		for i := range want {
			if got := bags(&q, i); !reflect.DeepEqual(got, want[i]) {
				t.Fatalf("round %d, %s, table %d: got %v, want %v", round, p.name, i, got, want[i])
			}
		}
	}
}

func TestBindingAllocatesNothing(t *testing.T) {
	b := binder(t, manifest(3, 1, 2, 0), Options{})
	messages := map[string][]byte{}
	for _, p := range protocols {
		messages[p.name] = p.encode(t, with(zeros("t3.weights", dtype.Float32, 6)))
	}
	for _, p := range protocols {
		t.Run("I4/"+p.name, func(t *testing.T) {
			var r wire.Request
			var q Query
			dst := packedRows(b, 2)
			if n := testing.AllocsPerRun(100, func() {
				r.Reset()
				q.Reset()
				if err := p.decode(&r, messages[p.name]); err != nil {
					t.Fatal(err)
				}
				if err := b.Bind(&r, &q); err != nil {
					t.Fatal(err)
				}
				q.CopyDense(dst, 0, q.Rows)
			}); n != 0 {
				t.Errorf("got %v allocations, want 0", n)
			}
		})
	}
}

func TestResetLetsGo(t *testing.T) {
	b := binder(t, manifest(3, 1, 2, 0), Options{})
	var q Query
	if err := protocols[0].bind(t, b, &q, with()); err != nil {
		t.Fatal(err)
	}
	q.Reset()
	for _, bag := range q.Bags[:cap(q.Bags)] {
		if bag.Values != nil {
			t.Error("ids are still referred to")
		}
	}
	for _, d := range q.dense[:cap(q.dense)] {
		if d.data != nil {
			t.Error("dense features are still referred to")
		}
	}
}

func TestInputsForMetadata(t *testing.T) {
	got := binder(t, manifest(3, 0), Options{}).Inputs()
	want := []Input{
		{"t0", dtype.Int64, []int64{-1, 3}},
		{"t1.values", dtype.Int64, []int64{-1}},
		{"t1.lengths", dtype.Int32, []int64{-1}},
		{"dense", dtype.Float32, []int64{-1, 13}},
		{"age", dtype.Float32, []int64{-1, 1}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestModelsThatCannotBeBound(t *testing.T) {
	twice := manifest(1, 1)
	twice.Dense[0].Name = "t1"
	wide := manifest(1)
	wide.Dense[0].DType = dtype.Float64
	for want, m := range map[string]*model.Manifest{
		`bind model "t4": two inputs are called "t1"`:                                     twice,
		`bind model "t4": dense input "dense" is float64 in the packed row, want float32`: wide,
		`bind model "": it has no inputs, want at least one`:                              {},
	} {
		if _, err := New(m, Options{}); err == nil || err.Error() != want {
			t.Errorf("got error %v, want %s", err, want)
		}
	}
}

func BenchmarkBind(b *testing.B) {
	hots := []int{3, 2, 1, 2, 6, 1, 1, 1, 1, 7, 3, 8, 1, 6, 9, 5, 1, 1, 1, 12, 100, 27, 10, 3, 1, 1}
	bind := binder(b, manifest(hots...), Options{})
	ts := []tensor{zeros("dense", dtype.Float32, 1, 13), zeros("age", dtype.Float32, 1)}
	for i, hot := range hots {
		ts = append(ts, zeros(bind.tables[i].Name, dtype.Int64, 1, int64(hot)))
	}
	var r wire.Request
	if err := r.DecodePredict(protocols[0].encode(b, ts)); err != nil {
		b.Fatal(err)
	}
	for name, hints := range map[string]bool{"same order": true, "map": false} { // the map alone is the baseline
		b.Run(name, func(b *testing.B) {
			var q Query
			b.ReportAllocs()
			for b.Loop() {
				if !hints {
					clear(q.hints)
				}
				if err := bind.Bind(&r, &q); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
