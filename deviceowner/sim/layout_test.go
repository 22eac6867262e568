package sim_test

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"rankd/deviceowner/sim"
	"rankd/internal/dtype"
	"rankd/model"
)

// manifest has three tables of dim 4 at 64-byte aligned offsets, a dense input of 3 values and two output columns.
func manifest() *model.Manifest {
	m := &model.Manifest{
		Packed:  []model.PackedArray{{DType: dtype.Float32, Stride: 256}},
		Dense:   []model.Dense{{Name: "dense", Width: 3, DType: dtype.Float32, Slot: model.Slot{Offset: 208}}},
		Outputs: []model.Output{{Name: "click"}, {Name: "buy", Column: 1}},
	}
	for i, name := range []string{"a", "b", "c"} {
		m.Tables = append(m.Tables, model.Table{Name: name, Dim: 4, Slot: model.Slot{Offset: 64 * i}})
	}
	return m
}

// scalarOffsets are the places of the scalars of manifest's row, in order.
var scalarOffsets = []int{0, 64, 128, 208, 212, 216}

func layout(t testing.TB) *sim.Layout {
	l, err := sim.LayoutOf(manifest())
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func put(row []byte, at int, v float32) { binary.LittleEndian.PutUint32(row[at:], math.Float32bits(v)) }

// whole computes the score of whole-number scalars in integer arithmetic, modulo 2^24.
func whole(values []int64, column, checksum int64) float32 {
	sum := column*10368889 + checksum
	for s, v := range values {
		k := int64((uint64(2*s+1)*0x9E3779B1&0xffffffff)>>8 | 1)
		sum += k * v
	}
	return float32(((sum%(1<<24))+1<<24)%(1<<24)) / (1 << 24)
}

func TestScoreOfWholeNumbersEqualsIntegerArithmetic(t *testing.T) {
	l := layout(t)
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		row := make([]byte, 256)
		values := make([]int64, len(scalarOffsets))
		for i, at := range scalarOffsets {
			values[i] = rng.Int64N(200_000) - 100_000
			put(row, at, float32(values[i]))
		}
		if got, want := sim.ScoreRow(l, row, false), whole(values, 0, 0); got != want {
			t.Fatalf("%v: got %v, want %v", values, got, want)
		}
		var both [2]float32
		l.Score(both[:], [][]byte{row}, 0, false)
		if want := whole(values, 1, 0); both[1] != want || both[0] != whole(values, 0, 0) {
			t.Fatalf("%v: got columns %v, want the second to be %v", values, both, want)
		}
	}
}

// Whole numbers up to 256 are the same in bfloat16.
func TestPooledVectorsOfTwoBytesAreWidened(t *testing.T) {
	m := manifest()
	for i := range m.Tables {
		m.Tables[i].Dim = 3 // six bytes: the checksum's last word is not full
	}
	m.AssignSlots(dtype.BFloat16)
	l, err := sim.LayoutOf(m)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(5, 6))
	arrays := [][]byte{make([]byte, m.Packed[0].Stride), make([]byte, m.Packed[1].Stride)}
	var values []int64
	for i := range m.Tables {
		values = append(values, rng.Int64N(513)-256)
		binary.LittleEndian.PutUint16(arrays[0][m.Tables[i].Slot.Offset:], dtype.Float32ToBFloat16(float32(values[i])))
	}
	for k := range m.Dense[0].Width {
		values = append(values, rng.Int64N(200_000))
		put(arrays[1], m.Dense[0].Slot.Offset+4*k, float32(values[len(values)-1]))
	}
	score := func(full bool) float32 {
		var both [2]float32
		l.Score(both[:], arrays, 0, full)
		return both[0]
	}
	if got, want := score(false), whole(values, 0, 0); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	before := score(true)
	for at := range arrays[0] {
		arrays[0][at] ^= 1
		if changed, inSlot := score(true) != before, at%64 < 6 && at < 192; changed != inSlot {
			t.Errorf("byte %d: changed %v, want %v", at, changed, inSlot)
		}
		arrays[0][at] ^= 1
	}
}

// The values are what the formula of the package comment gives; clients in other languages compute the same.
func TestScoreIsTheDocumentedOne(t *testing.T) {
	l := layout(t)
	row := make([]byte, 256)
	for i := range 64 {
		put(row, 4*i, float32(i)*0.37-5)
	}
	var s float64
	for i, at := range scalarOffsets {
		k := (uint32(2*i+1)*0x9E3779B1)>>8 | 1
		s += float64(k) / (1 << 24) * float64(float32(at/4)*0.37-5)
	}
	if got, want := sim.ScoreRow(l, row, false), float32(s-math.Floor(s)); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	var h uint64
	for _, p := range [][2]int{{0, 16}, {64, 80}, {128, 144}, {208, 220}} {
		for at := p[0]; at < p[1]; at += 8 {
			var word [8]byte
			copy(word[:], row[at:min(at+8, p[1])])
			h = ((h<<5 | h>>59) ^ binary.LittleEndian.Uint64(word[:])) * 0x9E3779B97F4A7C15
		}
	}
	s += float64(h>>40) / (1 << 24)
	if got, want := sim.ScoreRow(l, row, true), float32(s-math.Floor(s)); got != want {
		t.Errorf("full: got %v, want %v", got, want)
	}
}

func TestI3EveryChangeOfARowShows(t *testing.T) {
	l := layout(t)
	rng := rand.New(rand.NewPCG(3, 4))
	random := func() []byte {
		row := make([]byte, 256)
		for i := range 64 {
			put(row, 4*i, float32(rng.NormFloat64()))
		}
		return row
	}
	t.Run("distinct rows", func(t *testing.T) {
		// 3000 scores make 4.5 million pairs of which 0.27 should agree by chance with 2^24 values.
		for _, full := range []bool{false, true} {
			seen := map[float32]int{}
			for range 3000 {
				seen[sim.ScoreRow(l, random(), full)]++
			}
			if len(seen) < 2997 {
				t.Errorf("full %v: got %d distinct scores of 3000", full, len(seen))
			}
		}
	})
	t.Run("swapped tables", func(t *testing.T) {
		row := random()
		before := sim.ScoreRow(l, row, false)
		for i := range 4 {
			row[i], row[64+i] = row[64+i], row[i]
		}
		if sim.ScoreRow(l, row, false) == before {
			t.Error("got the same score")
		}
	})
	t.Run("any bit of a slot in full mode, no byte outside", func(t *testing.T) {
		row := random()
		before := sim.ScoreRow(l, row, true)
		for at := range 256 {
			inSlot := at < 16 || at >= 64 && at < 80 || at >= 128 && at < 144 || at >= 208 && at < 220
			row[at] ^= 1
			if changed := sim.ScoreRow(l, row, true) != before; changed != inSlot {
				t.Errorf("byte %d: changed %v, want %v", at, changed, inSlot)
			}
			row[at] ^= 1
		}
	})
	t.Run("NaN", func(t *testing.T) {
		row := random()
		put(row, 64, float32(math.NaN()))
		if s := sim.ScoreRow(l, row, false); s == s {
			t.Errorf("got %v, want NaN", s)
		}
	})
}

func TestWeightsOfManySlotsDiffer(t *testing.T) {
	m := manifest()
	m.Packed[0].Stride = 1 << 16
	m.Dense[0] = model.Dense{Name: "dense", Width: 4000, DType: dtype.Float32, Slot: model.Slot{Offset: 1024}}
	l, err := sim.LayoutOf(m)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[float32]bool{}
	row := make([]byte, 1<<16)
	for i := range 4000 {
		put(row, 1024+4*i, 1)
		seen[sim.ScoreRow(l, row, false)] = true // the weight alone
		put(row, 1024+4*i, 0)
	}
	if len(seen) != 4000 {
		t.Errorf("got %d distinct weights of 4000", len(seen))
	}
}

func TestLayoutReportsEveryViolation(t *testing.T) {
	m := manifest()
	m.Packed[0].DType = dtype.Int32
	m.Tables[1].Slot.Array = 3
	m.Dense[0].Slot.Offset = 248
	m.Outputs = nil
	_, err := sim.LayoutOf(m)
	if err == nil {
		t.Fatal("got no error")
	}
	for _, want := range []string{`"a": got a packed array of int32`, `"b": got packed array 3`, `"dense": got 3 values at offset 248`, "0 columns"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
}

func TestScoringDoesNotAllocate(t *testing.T) {
	l := layout(t)
	row := make([]byte, 256)
	if n := testing.AllocsPerRun(100, func() { sim.ScoreRow(l, row, true) }); n != 0 {
		t.Errorf("got %v allocations", n)
	}
}
