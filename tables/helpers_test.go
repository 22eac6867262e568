package tables

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"testing"

	"rankd/internal/dtype"
	"rankd/internal/hugemem"
	"rankd/internal/testutil"
	"rankd/model"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		os.Exit(loadAndDie(dir))
	}
	testutil.Main(m)
}

// spec is one table of a test bundle.
type spec struct {
	rows     int64
	dim      int
	combiner string
	policy   string
}

// t4 is 4 tables of 1000 rows of 8.
var t4 = []spec{
	{1000, 8, model.CombinerSum, model.PolicyReject},
	{1000, 8, model.CombinerSum, model.PolicyReject},
	{1000, 8, model.CombinerSum, model.PolicyReject},
	{1000, 8, model.CombinerSum, model.PolicyReject},
}

// value is element k of row r of table t: whole numbers in the first element, distinct in the others.
func value(t int, r int64, k int) float32 { return float32(t*10000) + float32(r) + float32(k)/16 }

// makeBundle writes a bundle whose row r of table t is value(t, r, ·).
func makeBundle(t testing.TB, specs []spec) *model.Bundle {
	t.Helper()
	w, err := model.Create(filepath.Join(t.TempDir(), "model"))
	if err != nil {
		t.Fatal(err)
	}
	m := &model.Manifest{
		FormatVersion: model.FormatVersion, Name: "t", Version: "1",
		Packed:   []model.PackedArray{{DType: dtype.Float32}},
		Outputs:  []model.Output{{Name: "score"}},
		MaxBatch: 256, Buckets: []int{256},
		Program: model.Program{Files: []model.ProgramFile{{File: "programs/model.mlir"}}, Inputs: []model.ProgramInput{{Packed: new(int)}}},
	}
	ctx := context.Background()
	offset := 0
	for i, s := range specs {
		file := fmt.Sprintf("tables/t%02d.safetensors", i)
		m.Tables = append(m.Tables, model.Table{
			Name: fmt.Sprintf("t%d", i), Rows: s.rows, Dim: s.dim, Combiner: s.combiner, IDPolicy: s.policy,
			RowDType: dtype.Float32, File: file, Tensor: "table", Slot: model.Slot{Offset: offset},
		})
		offset += int(align(int64(4 * s.dim)))
		err := w.AddTensors(ctx, file, []model.NamedTensor{{
			Name: "table", DType: dtype.Float32, Shape: []int64{s.rows, int64(s.dim)},
			Fill: func(w io.Writer) error { return fillTable(w, i, s) },
		}})
		if err != nil {
			t.Fatal(err)
		}
	}
	m.Packed[0].Stride = offset
	if err := w.AddText(ctx, "programs/model.mlir", "module { // "+model.BatchToken+"\n}\n"); err != nil {
		t.Fatal(err)
	}
	b, err := w.Commit(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func fillTable(w io.Writer, table int, s spec) error {
	var buf bytes.Buffer
	for r := range s.rows {
		for k := range s.dim {
			_ = binary.Write(&buf, binary.LittleEndian, value(table, r, k))
		}
	}
	_, err := w.Write(buf.Bytes())
	return err
}

// shmDir makes a directory on the machine's ordinary tmpfs.
func shmDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp(hugemem.DefaultDir, "rankd-tables-test-")
	if err != nil {
		t.Skipf("no tmpfs: %v", err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func mustLoad(t testing.TB, b *model.Bundle, o Options) *Segment {
	t.Helper()
	s, err := Load(context.Background(), b, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// newSet loads and attaches a bundle of the given tables.
func newSet(t testing.TB, specs []spec) *Set {
	t.Helper()
	b := makeBundle(t, specs)
	seg := mustLoad(t, b, Options{Instance: testutil.Instance(t), Dir: shmDir(t), Want: hugemem.Small})
	return attach(t, int(seg.FD().Fd()), b.Manifest)
}

func attach(t testing.TB, fd int, m *model.Manifest) *Set {
	t.Helper()
	s, err := Attach(fd, m)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func ids64(ids ...int64) []byte {
	var b []byte
	for _, id := range ids {
		b = binary.LittleEndian.AppendUint64(b, uint64(id))
	}
	return b
}

func ids32(ids ...int32) []byte {
	var b []byte
	for _, id := range ids {
		b = binary.LittleEndian.AppendUint32(b, uint32(id))
	}
	return b
}

func floats(v ...float32) []byte {
	var b []byte
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return b
}

func float(b []byte, i int) float32 {
	return math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
}

// lookup resolves and sweeps all rows at once into rows filled with 0xCC.
func lookup(t testing.TB, s *Set, bags []Bags, rows int) []byte {
	t.Helper()
	dst := bytes.Repeat([]byte{0xCC}, rows*s.strides[0])
	var p Plan
	var h Shared
	s.Pool(&p, &h, bags)
	s.Resolve(&p, bags, 0, rows)
	s.Sweep(&p, &h, [][]byte{dst}, 0, rows)
	return dst
}
