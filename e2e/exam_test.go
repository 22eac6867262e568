package e2e

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"rankd/deviceowner/sim"
	"rankd/internal/dtype"
	"rankd/model"
	"rankd/model/demo"
)

// exam is example rows of a model and the score that is right for each. No two of them have the same score, so a reply that
// belongs to another row is always seen.
type exam struct {
	m        *model.Manifest
	examples []example
	byScore  map[uint32]int // bits of a score -> its example
}

type example struct {
	ids   [][]int64 // by table
	dense []float32
	score float32
}

// scoring computes the right score of an example. row is its row of each packed array, made by this package.
type scoring func(x *example, row [][]byte) float32

// simulated is the score of the simulated accelerator with --sim-verify=full: of every byte of the packed row.
func simulated(t testing.TB, m *model.Manifest) scoring {
	t.Helper()
	l, err := sim.LayoutOf(m)
	if err != nil {
		t.Fatal(err)
	}
	scores := make([]float32, l.Columns())
	return func(_ *example, row [][]byte) float32 {
		l.Score(scores, row, 0, true)
		return scores[0]
	}
}

// closedForm is the score of the test model in numbers: every step is exact in float32.
func closedForm(x *example, _ [][]byte) float32 {
	return closed(x, func(v float32) float32 { return v })
}

// closedHalf is closedForm where pooled vectors travel as bfloat16.
func closedHalf(x *example, _ [][]byte) float32 {
	return closed(x, func(v float32) float32 { return dtype.BFloat16ToFloat32(dtype.Float32ToBFloat16(v)) })
}

func closed(x *example, sent func(float32) float32) float32 {
	var s float32
	for t, ids := range x.ids {
		s += float32(t+1) * sent(demo.TestRow(t, ids[0]))
	}
	for j, v := range x.dense {
		s += float32(j+1) * v
	}
	return s
}

// newExam draws n examples. Dense features are small whole numbers, for the sake of the closed form.
func newExam(t testing.TB, b *model.Bundle, seed uint64, n int, score scoring) *exam {
	t.Helper()
	e := &exam{m: b.Manifest, byScore: map[uint32]int{}}
	pool := openPooling(t, b)
	rng := random(seed, "exam")
	for tries := 0; len(e.examples) < n; tries++ {
		if tries > 4*n {
			t.Fatalf("draw %d examples with scores of their own: got %d in %d tries", n, len(e.examples), tries)
		}
		x := e.draw(rng)
		x.score = score(&x, pool.row(&x))
		bits := math.Float32bits(x.score)
		if _, taken := e.byScore[bits]; taken {
			continue
		}
		e.byScore[bits] = len(e.examples)
		e.examples = append(e.examples, x)
	}
	return e
}

func (e *exam) draw(rng *rand.Rand) example {
	var x example
	for i := range e.m.Tables {
		ids := make([]int64, e.m.Tables[i].Hotness)
		for k := range ids {
			ids[k] = rng.Int64N(e.m.Tables[i].Rows)
		}
		x.ids = append(x.ids, ids)
	}
	for i := range e.m.Dense {
		for range e.m.Dense[i].Width {
			x.dense = append(x.dense, float32(rng.IntN(8)))
		}
	}
	return x
}

// pick draws the examples of a request.
func (e *exam) pick(rng *rand.Rand, rows int) []int {
	picks := make([]int, rows)
	for i := range picks {
		picks[i] = rng.IntN(len(e.examples))
	}
	return picks
}

// pooling makes packed rows from the tables on disk, the plain way: row after row, in float32, in the order of the ids.
type pooling struct {
	m      *model.Manifest
	tables [][]byte // raw float32 [rows, dim]
}

func openPooling(t testing.TB, b *model.Bundle) *pooling {
	t.Helper()
	p := &pooling{m: b.Manifest}
	for i := range b.Manifest.Tables {
		file, rows, err := b.OpenTable(i)
		if err != nil {
			t.Fatal(err)
		}
		p.tables = append(p.tables, append([]byte(nil), rows.Data...))
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

func (p *pooling) row(x *example) [][]byte {
	var row [][]byte
	for _, a := range p.m.Packed {
		row = append(row, make([]byte, a.Stride))
	}
	for i := range p.m.Tables {
		t := &p.m.Tables[i]
		sum := make([]float32, t.Dim)
		for _, id := range x.ids[i] {
			for k := range sum {
				at := 4 * (int(id)*t.Dim + k)
				sum[k] += math.Float32frombits(binary.LittleEndian.Uint32(p.tables[i][at:]))
			}
		}
		vector := row[t.Slot.Array][t.Slot.Offset:]
		for k, v := range sum {
			if p.m.PooledDType(t) == dtype.BFloat16 {
				binary.LittleEndian.PutUint16(vector[2*k:], dtype.Float32ToBFloat16(v))
			} else {
				binary.LittleEndian.PutUint32(vector[4*k:], math.Float32bits(v))
			}
		}
	}
	next := 0
	for i := range p.m.Dense {
		d := &p.m.Dense[i]
		for k := range d.Width {
			binary.LittleEndian.PutUint32(row[d.Slot.Array][d.Slot.Offset+4*k:], math.Float32bits(x.dense[next+k]))
		}
		next += d.Width
	}
	return row
}
