package demo

import (
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"rankd/internal/dtype"
	"rankd/model"
)

func createTest(t *testing.T, o TestOptions) *model.Bundle {
	t.Helper()
	o.Dir = filepath.Join(t.TempDir(), "m")
	b, err := CreateTest(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.VerifyDigests(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	return b
}

func TestPlainTestModelScoresWhatItSays(t *testing.T) {
	b := createTest(t, TestOptions{})
	m := b.Manifest
	if len(m.Tables) != 4 || m.Tables[3].Rows != 1000 || m.Tables[3].Dim != 8 || m.MaxBatch != 256 || m.Dense[0].Width != 13 {
		t.Fatalf("manifest: got %+v", m)
	}
	_, rows := tensor(t, b.Path(m.Tables[2].File), m.Tables[2].Tensor)
	for i, v := range rows {
		if v != float32(20000+i/8) {
			t.Fatalf("table 2, row %d, column %d: got %v", i/8, i%8, v)
		}
	}
	_, scores := tensor(t, b.Path(model.GoldenFile), "expect.score")
	_, dense := tensor(t, b.Path(model.GoldenFile), "dense")
	for e, got := range scores {
		want := 0
		for i := range m.Tables {
			ids, _ := tensor(t, b.Path(model.GoldenFile), m.Tables[i].Name)
			want += (i + 1) * (10000*i + int(binary.LittleEndian.Uint64(ids.Data[8*e:])))
		}
		for j := range 13 {
			want += (j + 1) * int(dense[13*e+j])
		}
		if got != float32(want) {
			t.Errorf("example %d: got %v, want %d", e, got, want)
		}
	}
}

func TestTestModelVariantsAreExpressible(t *testing.T) {
	b := createTest(t, TestOptions{
		PerTable: true, Weighted: true, DenseWidth: -1, Golden: 9, Buckets: []int{8, 256},
		Tables: []TestTable{
			{Hotness: 0, Combiner: model.CombinerMean, IDPolicy: model.PolicyClamp},
			{Hotness: 3, Combiner: model.CombinerSqrtN, IDPolicy: model.PolicyZero, Dim: 16, Rows: 17},
			{Hotness: 2, IDPolicy: model.PolicyHashMod, Dim: 5},
		},
	})
	f, err := b.OpenGolden()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	values, ok := f.Tensor("t0.values")
	if !ok {
		t.Fatalf("golden: got %q", f.Names())
	}
	for _, c := range []struct {
		name  string
		dtype dtype.DType
		shape []int64
	}{
		{"t0.lengths", dtype.Int32, []int64{9}},
		{"t0.weights", dtype.Float32, values.Shape},
		{"t1", dtype.Int64, []int64{9, 3}},
		{"t2", dtype.Int64, []int64{9, 2}},
		{"expect.score", dtype.Float32, []int64{9}},
		{"expect.pooled", dtype.Float32, []int64{9, 3}},
	} {
		if _, err := f.Want(c.name, c.dtype, c.shape...); err != nil {
			t.Error(err)
		}
	}
	outside := 0
	for _, name := range []string{"t1", "t2"} {
		ids, _ := f.Tensor(name)
		for at := 0; at < len(ids.Data); at += 8 {
			if id := int64(binary.LittleEndian.Uint64(ids.Data[at:])); id < 0 || id >= 17 && name == "t1" || id >= 1000 {
				outside++
			}
		}
	}
	if outside == 0 {
		t.Error("no golden id is outside its table, so no policy is exercised")
	}
}

func TestTestModelProgramText(t *testing.T) {
	b := createTest(t, TestOptions{Tables: []TestTable{{Hotness: 1}, {Dim: 4}}, DenseWidth: 2, PerTable: true})
	got, err := b.ProgramText(16)
	if err != nil {
		t.Fatal(err)
	}
	const want = `module @readout {
  func.func public @main(
      %readout: tensor<14x3xf32>,
      %packed: tensor<16x48xf32>) -> tensor<16x3xf32> {
    %0 = stablehlo.slice %packed [0:16, 0:8] : (tensor<16x48xf32>) -> tensor<16x8xf32>
    %1 = stablehlo.slice %packed [0:16, 16:20] : (tensor<16x48xf32>) -> tensor<16x4xf32>
    %2 = stablehlo.slice %packed [0:16, 32:34] : (tensor<16x48xf32>) -> tensor<16x2xf32>
    %3 = stablehlo.concatenate %0, %1, %2, dim = 1 : (tensor<16x8xf32>, tensor<16x4xf32>, tensor<16x2xf32>) -> tensor<16x14xf32>
    %4 = stablehlo.dot_general %3, %readout, contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST] : (tensor<16x14xf32>, tensor<14x3xf32>) -> tensor<16x3xf32>
    return %4 : tensor<16x3xf32>
  }
}
`
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if raw, err := os.ReadFile(b.Path(programFile)); err != nil || string(raw) == want {
		t.Errorf("the file itself must hold the token: %v", err)
	}
}
