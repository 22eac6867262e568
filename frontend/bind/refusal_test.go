package bind

import (
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"rankd/frontend/wire"
	"rankd/internal/dtype"
)

// with returns the inputs of a good request of two rows, with those of the same name replaced by ts, and others added.
func with(ts ...tensor) []tensor {
	good := []tensor{
		zeros("t0", dtype.Int64, 2, 3), zeros("t1", dtype.Int64, 2, 1), zeros("t2", dtype.Int64, 2, 2),
		zeros("t3.values", dtype.Int64, 6), i64("t3.lengths", []int64{2}, 2, 4),
		zeros("dense", dtype.Float32, 2, 13), zeros("age", dtype.Float32, 2, 1),
	}
	for _, in := range ts {
		found := false
		for i := range good {
			if good[i].name == in.name {
				good[i], found = in, true
			}
		}
		if !found {
			good = append(good, in)
		}
	}
	return good
}

// without leaves an input out.
func without(ts []tensor, names ...string) []tensor {
	var left []tensor
next:
	for _, in := range ts {
		for _, name := range names {
			if in.name == name {
				continue next
			}
		}
		left = append(left, in)
	}
	return left
}

const takes = `"t0" [B,3], "t1" [B,1], "t2" [B,2], "t3" ragged, "dense" [B,13], "age" [B,1]`

// Tokens in the expected messages: the protocols name element types in their own words.
var words = map[bool]*strings.Replacer{
	false: strings.NewReplacer("<FP32>", "float32", "<FP16>", "float16", "<BF16>", "bfloat16", "<FP64>", "float64", "<INT64>", "int64",
		"<INT32>", "int32", "<UINT64>", "uint64", "<UINT32>", "uint32", "<INT16>", "int16", "<BOOL>", "bool", "<INT8>", "int8"),
	true: strings.NewReplacer("<", "", ">", ""),
}

func TestRefusals(t *testing.T) {
	offsets := func(rows int, o ...int64) []tensor { // 6 ids in the given bags, everything else `rows` rows
		return without(append(allRows(rows), i64("t3.values", []int64{6}, 1, 2, 3, 4, 5, 6), i64("t3.offsets", []int64{int64(len(o))}, o...)), "t3.lengths")
	}
	lengths := func(l ...int64) []tensor {
		return append(without(allRows(3), "t3.lengths"), i64("t3.values", []int64{6}, 1, 2, 3, 4, 5, 6), i64("t3.lengths", []int64{int64(len(l))}, l...))
	}
	for _, c := range []struct {
		name   string
		ts     []tensor
		reason string
		msg    string
	}{
		// Names.
		{"missing table", without(with(), "t1"), wire.ReasonMissing, `bind input "t1": it is missing, want it, or "t1.values" with "t1.lengths" or "t1.offsets"; the model takes ` + takes},
		{"missing dense", without(with(), "dense"), wire.ReasonMissing, `bind input "dense": it is missing, want it; the model takes ` + takes},
		{"no inputs", nil, wire.ReasonMissing, `bind input "t0": it is missing, want it, or "t0.values" with "t0.lengths" or "t0.offsets"; the model takes ` + takes},
		{"unknown", with(zeros("T0", dtype.Int64, 2, 3)), wire.ReasonInput, `bind input "T0": the model has no such input, want ` + takes},
		{"empty name", with(zeros("", dtype.Int64, 2, 3)), wire.ReasonInput, `bind input "": the model has no such input, want ` + takes},
		{"packed ids of a model with ragged tables", with(zeros("ids", dtype.Int64, 2, 7)), wire.ReasonInput, `bind input "ids": the model has no such input, want ` + takes},
		{"twice", append(with(), zeros("t2", dtype.Int64, 2, 2)), wire.ReasonDuplicate, `bind input "t2": got it twice, want it once`},
		{"dense twice", append(with(), zeros("dense", dtype.Float32, 2, 13)), wire.ReasonDuplicate, `bind input "dense": got it twice, want it once`},
		{"two forms", with(zeros("t3", dtype.Int64, 2, 2)), wire.ReasonDuplicate, `bind table "t3": got both "t3" and "t3.values", want one form of its ids`},
		{"weights beside own tensor", with(zeros("t0.weights", dtype.Float32, 6)), wire.ReasonDuplicate, `bind table "t0": got both "t0" and "t0.weights", want one form of its ids`},
		{"lengths and offsets", with(i64("t3.offsets", []int64{3}, 0, 2, 6)), wire.ReasonDuplicate, `bind table "t3": got both "t3.lengths" and "t3.offsets", want one form of its ids`},
		{"values alone", without(with(), "t3.lengths"), wire.ReasonMissing, `bind input "t3.lengths": it is missing beside "t3.values", want it or "t3.offsets"`},
		{"lengths alone", without(with(), "t3.values"), wire.ReasonMissing, `bind input "t3.values": it is missing beside "t3.lengths", want it`},
		{"weights alone", without(with(zeros("t3.weights", dtype.Float32, 6)), "t3.values", "t3.lengths"), wire.ReasonMissing, `bind input "t3.values": it is missing beside "t3.weights", want it`},

		// Shapes.
		{"no rows", with(zeros("dense", dtype.Float32, 0, 13)), wire.ReasonShape, `bind input "dense": got shape [0,13] with 0 rows, want at least 1`},
		{"no rows of ids", with(zeros("t0", dtype.Int64, 0, 3)), wire.ReasonShape, `bind input "t0": got shape [0,3] with 0 rows, want at least 1`},
		{"no lengths", with(zeros("t3.values", dtype.Int64, 0), zeros("t3.lengths", dtype.Int64, 0)), wire.ReasonShape, `bind input "t3.lengths": got shape [0] with 0 rows, want at least 1`},
		{"one offset", offsets(3, 0), wire.ReasonShape, `bind input "t3.offsets": got shape [1] with 0 rows, want at least 1`},
		{"no offsets", offsets(3), wire.ReasonShape, `bind input "t3.offsets": got shape [0] with 0 rows, want at least 1`},
		{"flat dense", with(zeros("dense", dtype.Float32, 26)), wire.ReasonShape, `bind input "dense": got shape [26], want [B,13]`},
		{"narrow dense", with(zeros("dense", dtype.Float32, 2, 12)), wire.ReasonShape, `bind input "dense": got shape [2,12], want [B,13]`},
		{"dense of rank 3", with(zeros("dense", dtype.Float32, 2, 13, 1)), wire.ReasonShape, `bind input "dense": got shape [2,13,1], want [B,13]`},
		{"scalar", with(zeros("dense", dtype.Float32)), wire.ReasonShape, `bind input "dense": got shape [], want [B,13]`},
		{"wide single", with(zeros("age", dtype.Float32, 2, 2)), wire.ReasonShape, `bind input "age": got shape [2,2], want [B,1] or [B]`},
		{"hotness", with(zeros("t0", dtype.Int64, 2, 4)), wire.ReasonShape, `bind input "t0": got shape [2,4], want [B,3]`},
		{"ids of rank 1", with(zeros("t0", dtype.Int64, 6)), wire.ReasonShape, `bind input "t0": got shape [6], want [B,3]`},
		{"ragged table, hot 0", without(with(zeros("t3", dtype.Int64, 1<<40, 0)), "t3.values", "t3.lengths"), wire.ReasonShape, `bind input "t3": got shape [1099511627776,0], want [B,hot] with hot of at least 1`},
		{"values of rank 2", with(zeros("t3.values", dtype.Int64, 2, 3)), wire.ReasonShape, `bind input "t3.values": got shape [2,3], want [nnz]`},
		{"lengths of rank 2", with(zeros("t3.lengths", dtype.Int64, 2, 1)), wire.ReasonShape, `bind input "t3.lengths": got shape [2,1], want [B]`},
		{"weights of rank 2", with(zeros("t3.weights", dtype.Float32, 6, 1)), wire.ReasonShape, `bind input "t3.weights": got shape [6,1], want [nnz]`},
		{"too few weights", with(zeros("t3.weights", dtype.Float32, 5)), wire.ReasonShape, `bind input "t3.weights": it has 5 weights, want 6, one for each id`},
		{"batches differ", with(zeros("t1", dtype.Int64, 3, 1)), wire.ReasonShape, `bind input "t0": it has 2 rows, want 1 or 3, the rows of "t1"`},
		{"dense batch differs", with(zeros("dense", dtype.Float32, 5, 13)), wire.ReasonShape, `bind input "t0": it has 2 rows, want 1 or 5, the rows of "dense"`},
		{"too many rows", append(allRows(101), zeros("t3", dtype.Int64, 1, 1)), wire.ReasonTooLarge, `bind request: it has 101 rows, want at most 100 (--max-request-rows)`},

		// Ragged bags.
		{"offsets 1,2,4", offsets(2, 1, 2, 4), wire.ReasonOffsets, `bind input "t3.offsets": it begins with 1, want 0`},
		{"offsets 0,5,3", offsets(2, 0, 5, 3), wire.ReasonOffsets, `bind input "t3.offsets": offset 2 is 3 after 5, want no less`},
		{"offsets 0,2,7", offsets(2, 0, 2, 7), wire.ReasonOffsets, `bind input "t3.offsets": offset 2 is 7, want at most 6, the number of ids`},
		{"offsets 0,-2,4", offsets(2, 0, -2, 4), wire.ReasonOffsets, `bind input "t3.offsets": offset 1 is -2 after 0, want no less`},
		{"offsets 0,2^40,6", offsets(2, 0, 1<<40, 6), wire.ReasonOffsets, `bind input "t3.offsets": offset 1 is 1099511627776, want at most 6, the number of ids`},
		{"offsets 0,2^32,6", offsets(2, 0, 1<<32, 6), wire.ReasonOffsets, `bind input "t3.offsets": offset 1 is 4294967296, want at most 6, the number of ids`},
		{"offsets -1,2,6", offsets(2, -1, 2, 6), wire.ReasonOffsets, `bind input "t3.offsets": it begins with -1, want 0`},
		{"offsets 0,2,4", offsets(2, 0, 2, 4), wire.ReasonOffsets, `bind input "t3.offsets": it ends with 4, want 6, the number of ids`},
		{"offsets 0,min,6", offsets(2, 0, math.MinInt64, 6), wire.ReasonOffsets, `bind input "t3.offsets": offset 1 is -9223372036854775808 after 0, want no less`},
		{"three bags of rows without the last offset", offsets(3, 0, 2, 4), wire.ReasonShape, `bind input "t3.offsets": it has 2 rows, want 1 or 3, the rows of "t0", so one offset more`},
		{"two offsets for three rows", offsets(3, 0, 3), wire.ReasonOffsets, `bind input "t3.offsets": it ends with 3, want 6, the number of ids`},
		{"five offsets for three rows", offsets(3, 0, 1, 2, 3, 6), wire.ReasonShape, `bind input "t0": it has 3 rows, want 1 or 4, the rows of "t3.offsets"`},
		{"lengths 2,2,3", lengths(2, 2, 3), wire.ReasonLengths, `bind input "t3.lengths": row 2 has length 3, want at most 2, what is left of 6 ids`},
		{"lengths 2,2,1", lengths(2, 2, 1), wire.ReasonLengths, `bind input "t3.lengths": the lengths add up to 5, want 6, the number of ids`},
		{"lengths max,1,1", lengths(2147483647, 1, 1), wire.ReasonLengths, `bind input "t3.lengths": row 0 has length 2147483647, want at most 6, what is left of 6 ids`},
		{"lengths that wrap", lengths(math.MaxInt64, math.MaxInt64, 8), wire.ReasonLengths, `bind input "t3.lengths": row 0 has length 9223372036854775807, want at most 6, what is left of 6 ids`},
		{"lengths that wrap later", lengths(1, math.MaxInt64, 6), wire.ReasonLengths, `bind input "t3.lengths": row 1 has length 9223372036854775807, want at most 5, what is left of 6 ids`},
		{"a negative length", lengths(2, -1, 5), wire.ReasonLengths, `bind input "t3.lengths": row 1 has length -1, want 0 or more`},

		// Element types.
		{"ids as float", with(zeros("t0", dtype.Float32, 2, 3)), wire.ReasonDType, `bind input "t0": got <FP32>, want <INT64> or <INT32>`},
		{"ids as uint64", with(zeros("t0", dtype.Uint64, 2, 3)), wire.ReasonDType, `bind input "t0": got <UINT64>, want <INT64> or <INT32>`},
		{"ids as uint32", with(zeros("t0", dtype.Uint32, 2, 3)), wire.ReasonDType, `bind input "t0": got <UINT32>, want <INT64> or <INT32>`},
		{"ids as int16", with(zeros("t0", dtype.Int16, 2, 3)), wire.ReasonDType, `bind input "t0": got <INT16>, want <INT64> or <INT32>`},
		{"ids as half", with(tensor{"t1", dtype.Float16, []int64{2, 1}, []byte{0, 0x3e, 0, 0x3e}}), wire.ReasonDType, `bind input "t1": got <FP16>, want <INT64> or <INT32>`},
		{"ids as bfloat16", with(tensor{"t1", dtype.BFloat16, []int64{2, 1}, []byte{0xc0, 0x3f, 0xc0, 0x3f}}), wire.ReasonDType, `bind input "t1": got <BF16>, want <INT64> or <INT32>`},
		{"values as bool", with(zeros("t3.values", dtype.Bool, 6)), wire.ReasonDType, `bind input "t3.values": got <BOOL>, want <INT64> or <INT32>`},
		{"lengths as float", with(zeros("t3.lengths", dtype.Float32, 2)), wire.ReasonDType, `bind input "t3.lengths": got <FP32>, want <INT64> or <INT32>`},
		{"weights as double", with(zeros("t3.weights", dtype.Float64, 6)), wire.ReasonDType, `bind input "t3.weights": got <FP64>, want <FP32>`},
		{"dense as ids", with(zeros("dense", dtype.Int64, 2, 13)), wire.ReasonDType, `bind input "dense": got <INT64>, want <FP32>, <FP16>, <BF16> or <FP64>`},
		{"dense as int8", with(zeros("dense", dtype.Int8, 2, 13)), wire.ReasonDType, `bind input "dense": got <INT8>, want <FP32>, <FP16>, <BF16> or <FP64>`},
	} {
		b := binder(t, manifest(3, 1, 2, 0), Options{MaxRequestRows: 100})
		var q Query // one for all protocols, refusal after refusal, and good requests in between
		for _, p := range protocols {
			if p.name == "typed" && half(c.ts) {
				continue // the 16-bit types have no typed contents
			}
			t.Run(c.name+"/"+p.name, func(t *testing.T) {
				err := p.bind(t, b, &q, c.ts)
				e, ok := err.(*wire.Error)
				if !ok {
					t.Fatalf("got error %v, want a *wire.Error", err)
				}
				if want := words[p.kserve].Replace(c.msg); e.Reason != c.reason || e.Msg != want {
					t.Errorf("got  %s: %s\nwant %s: %s", e.Reason, e.Msg, c.reason, want)
				}
				if err := p.bind(t, b, &q, with()); err != nil || q.Rows != 2 {
					t.Errorf("a good request after the refusal: got %d rows, error %v, want 2 rows", q.Rows, err)
				}
			})
		}
	}
}

// allRows is a good request of that many rows, but for the ids of t3.
func allRows(rows int) []tensor {
	n := int64(rows)
	return []tensor{
		zeros("t0", dtype.Int64, n, 3), zeros("t1", dtype.Int64, n, 1), zeros("t2", dtype.Int64, n, 2),
		zeros("dense", dtype.Float32, n, 13), zeros("age", dtype.Float32, n, 1),
	}
}

func TestRefusalsOfPackedIDs(t *testing.T) {
	b := binder(t, manifest(3, 1, 2, 1), Options{})
	dense := []tensor{zeros("dense", dtype.Float32, 2, 13), zeros("age", dtype.Float32, 2)}
	for _, c := range []struct {
		ts  []tensor
		msg string
	}{
		{append(dense, zeros("ids", dtype.Int64, 2, 6)), `bind input "ids": got shape [2,6], want [B,7]`},
		{append(dense, zeros("ids", dtype.Int64, 14)), `bind input "ids": got shape [14], want [B,7]`},
		{append(dense, zeros("ids", dtype.Int64, 0, 7)), `bind input "ids": got shape [0,7] with 0 rows, want at least 1`},
		{append(dense, zeros("ids", dtype.Uint64, 2, 7)), `bind input "ids": got <UINT64>, want <INT64> or <INT32>`},
		{append(dense, zeros("ids", dtype.Int64, 3, 7)), `bind input "dense": it has 2 rows, want 1 or 3, the rows of "ids"`},
		{append(dense, zeros("ids", dtype.Int64, 2, 7), zeros("t1", dtype.Int64, 2, 1)), `bind table "t1": got both "ids" and "t1", want one form of its ids`},
		{append(dense, zeros("ids", dtype.Int64, 2, 7), zeros("t2.weights", dtype.Float32, 4)), `bind table "t2": got both "ids" and "t2.weights", want one form of its ids`},
		{dense, `bind input "t0": it is missing, want it, or "t0.values" with "t0.lengths" or "t0.offsets", or "ids" for all tables; the model takes "t0" [B,3], "t1" [B,1], "t2" [B,2], "t3" [B,1], "dense" [B,13], "age" [B,1]`},
	} {
		for _, p := range protocols {
			var q Query
			err := p.bind(t, b, &q, c.ts)
			if want := words[p.kserve].Replace(c.msg); err == nil || err.Error() != want {
				t.Errorf("%s: got error %v\nwant %s", p.name, err, want)
			}
		}
	}
}

// TestDamagedRequestsNeverReachBeyondTheirData binds good requests with numbers changed at random: shapes, element types and
// data that decode, but need not fit. Whatever is accepted can be read whole.
func TestDamagedRequestsNeverReachBeyondTheirData(t *testing.T) {
	g := rand.New(rand.NewPCG(3, 4))
	b := binder(t, manifest(3, 1, 2, 0), Options{MaxRequestRows: 1000})
	var q Query
	accepted := 0
	const rounds = 20000
	for range rounds {
		ts := with()
		for range 1 + g.IntN(2) {
			in := &ts[g.IntN(len(ts))]
			in.shape = append([]int64(nil), in.shape...)
			switch g.IntN(4) {
			case 0:
				in.shape[g.IntN(len(in.shape))] = int64(g.IntN(4))
			case 1:
				in.dtype = []dtype.DType{dtype.Int32, dtype.Int64, dtype.Float32, dtype.Float64}[g.IntN(4)]
			case 2:
				in.shape = append(in.shape, int64(g.IntN(2)))
			}
			*in = zeros(in.name, in.dtype, in.shape...)
			for i := range in.data {
				if g.IntN(8) == 0 {
					in.data[i] = byte(g.IntN(3))
				}
			}
		}
		if protocols[g.IntN(len(protocols))].bind(t, b, &q, ts) != nil {
			continue
		}
		accepted++
		for i := range q.Bags {
			bags(&q, i)
		}
		dst := packedRows(b, q.Rows)
		q.CopyDense(dst, 0, q.Rows)
	}
	if accepted < rounds/20 || accepted > rounds*19/20 {
		t.Errorf("%d of %d were accepted, want some of both", accepted, rounds)
	}
}

// TestClaimedRowsCostNothing: the most rows that few bytes can claim are refused without memory for them.
func TestClaimedRowsCostNothing(t *testing.T) {
	b := binder(t, manifest(0, 0, 0, 0), Options{})
	requests := [][]tensor{
		{{"t0", dtype.Int64, []int64{1 << 40, 0}, nil}},
		{{"t0.values", dtype.Int64, []int64{0}, nil}, {"t0.lengths", dtype.Int64, []int64{0, 1 << 40}, nil}},
		{{"dense", dtype.Float32, []int64{1 << 40, 0, 13}, nil}},
	}
	var encoded [][]byte
	for _, ts := range requests {
		encoded = append(encoded, protocols[0].encode(t, ts))
	}
	var q Query
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for i, m := range encoded {
		var r wire.Request
		if err := r.DecodePredict(m); err != nil {
			t.Fatal(err)
		}
		if err := b.Bind(&r, &q); err == nil {
			t.Errorf("request %d was accepted", i)
		}
	}
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 64<<10 {
		t.Errorf("I3: %d bytes were allocated, want at most 64 KiB", grown)
	}
}
