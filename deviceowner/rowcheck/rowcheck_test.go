package rowcheck_test

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"testing"

	"rankd/deviceowner/executor"
	"rankd/deviceowner/pjrt"
	"rankd/deviceowner/pjrt/pjrttest"
	"rankd/deviceowner/rowcheck"
	"rankd/deviceowner/sim"
	"rankd/internal/dtype"
	"rankd/model"
)

var layout = rowcheck.Layout{
	Arrays:     []model.PackedArray{{DType: dtype.Float32, Stride: 64}},
	ScoreBytes: 4, Buckets: []int{8, 1, 2, 5},
}

// program is an executor that scores float32 rows of 16 values with a Go function, all rows of a bucket at once.
type program func(rows [][]float32) []float32

func (p program) Name() string                       { return "test program" }
func (p program) Simulated() bool                    { return true }
func (p program) Depth() int                         { return 1 }
func (p program) Compile(context.Context, int) error { return nil }
func (p program) Close() error                       { return nil }
func (p program) Launch(b *executor.Batch, done func(error)) error {
	rows := make([][]float32, b.Bucket)
	for r := range rows {
		for c := range 16 {
			rows[r] = append(rows[r], math.Float32frombits(binary.LittleEndian.Uint32(b.Arrays[0][r*64+4*c:])))
		}
	}
	for r, s := range p(rows) {
		binary.LittleEndian.PutUint32(b.Scores[4*r:], math.Float32bits(s))
	}
	done(nil)
	return nil
}

// each makes a program from a function of the row's number and all rows.
func each(f func(r int, rows [][]float32) float32) program {
	return func(rows [][]float32) (scores []float32) {
		for r := range rows {
			scores = append(scores, f(r, rows))
		}
		return scores
	}
}

func TestI1DependentProgramsAreCaught(t *testing.T) {
	for name, c := range map[string]struct {
		p    program
		want string
	}{
		"mean of the batch": {each(func(r int, rows [][]float32) float32 {
			var sum float32
			for i := range rows {
				sum += rows[i][0]
			}
			return rows[r][0] - sum/float32(len(rows))
		}), "got"},
		"place in the batch": {each(func(r int, rows [][]float32) float32 { return rows[r][0] + 0.01*float32(r) }), "in another order"},
		"row before":         {each(func(r int, rows [][]float32) float32 { return rows[r][0] + 0.1*rows[max(r-1, 0)][1] }), "got"},
		"largest of the batch that is a number": {each(func(r int, rows [][]float32) float32 {
			var largest float32
			for i := range rows {
				if v := rows[i][3]; v > largest && !math.IsInf(float64(v), 0) {
					largest = v
				}
			}
			return rows[r][0] + 0*largest + min(largest, 4)*0.001
		}), "got"},
		"NaN anywhere": {each(func(r int, rows [][]float32) float32 {
			var poison float32
			for i := range rows {
				poison += 0 * rows[i][5]
			}
			return rows[r][0] + poison
		}), "with padding of NaN"},
		"zero rows": {each(func(r int, rows [][]float32) float32 {
			for i := range rows {
				if rows[i][0] == 0 && rows[i][1] == 0 {
					return 7
				}
			}
			return rows[r][0]
		}), "with padding of zeros"},
		"size of the bucket": {each(func(r int, rows [][]float32) float32 { return rows[r][0] * float32(len(rows)) }), "in this bucket and in the smaller one"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := rowcheck.Run(context.Background(), c.p, layout, rowcheck.Options{Seed: 1})
			if !errors.Is(err, rowcheck.ErrDependent) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want ErrDependent with %q", err, c.want)
			}
		})
	}
}

func TestI2ChecksThatShowNothingAreErrors(t *testing.T) {
	constant := each(func(int, [][]float32) float32 { return 0.5 })
	if _, err := rowcheck.Run(context.Background(), constant, layout, rowcheck.Options{}); !errors.Is(err, rowcheck.ErrConstant) {
		t.Errorf("constant: got %v", err)
	}
	one := layout
	one.Buckets = []int{1}
	if _, err := rowcheck.Run(context.Background(), constant, one, rowcheck.Options{}); !errors.Is(err, rowcheck.ErrConstant) {
		t.Errorf("constant in bucket 1: got %v", err)
	}
	nan := each(func(r int, rows [][]float32) float32 { return float32(math.Sqrt(float64(rows[r][0]))) })
	if _, err := rowcheck.Run(context.Background(), nan, layout, rowcheck.Options{}); !errors.Is(err, rowcheck.ErrNotFinite) {
		t.Errorf("NaN: got %v", err)
	}
}

func TestIndependentProgramsPass(t *testing.T) {
	good := each(func(r int, rows [][]float32) float32 { return rows[r][0]*2 + rows[r][15] })
	report, err := rowcheck.Run(context.Background(), good, layout, rowcheck.Options{Seed: 3})
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Buckets) != 4 || report.Scale != 1 {
		t.Errorf("got %+v", report)
	}
	for i, b := range report.Buckets {
		if want := []int{1, 2, 5, 8}[i]; b.Rows != want || !b.BitEqual || b.Permuted != 0 || b.Padded != 0 || b.Across != 0 {
			t.Errorf("got %+v, want exact results for bucket %d", b, want)
		}
	}
}

func TestSaturatedProgramIsTriedWithSmallerValues(t *testing.T) {
	step := each(func(r int, rows [][]float32) float32 { return clamp(rows[r][0] - 100) })
	_, err := rowcheck.Run(context.Background(), step, layout, rowcheck.Options{})
	if !errors.Is(err, rowcheck.ErrConstant) {
		t.Errorf("saturated everywhere: got %v", err)
	}
	small := each(func(r int, rows [][]float32) float32 {
		var norm float32
		for _, v := range rows[r] {
			norm += v * v
		}
		return clamp(norm) // about 16 for values around 1, 0.16 for values around 0.1
	})
	report, err := rowcheck.Run(context.Background(), small, layout, rowcheck.Options{})
	if err != nil || report.Scale != 0.1 {
		t.Errorf("saturated for large values: got scale %v, %v; want 0.1", report.Scale, err)
	}
}

func clamp(x float32) float32 { return min(max(x, 0), 1) }

func TestSimulatedDevicePasses(t *testing.T) {
	m := &model.Manifest{
		Packed:  layout.Arrays,
		Tables:  []model.Table{{Name: "a", Dim: 8}},
		Dense:   []model.Dense{{Name: "d", Width: 4, DType: dtype.Float32, Slot: model.Slot{Offset: 32}}},
		Outputs: []model.Output{{Name: "score"}}, Buckets: []int{1, 4, 16},
	}
	l, err := sim.LayoutOf(m)
	if err != nil {
		t.Fatal(err)
	}
	o := sim.Default(l)
	o.Call, o.Full = 0, true
	e, err := sim.New(o)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	report, err := rowcheck.Run(context.Background(), e, rowcheck.LayoutOf(m), rowcheck.Options{})
	if err != nil || len(report.Buckets) != 3 || !report.Buckets[2].BitEqual {
		t.Errorf("got %+v, %v", report, err)
	}
}

func TestCancelledCheckReturnsAtOnce(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	stuck := &hanging{each(func(int, [][]float32) float32 { return 0 }), cancel}
	if _, err := rowcheck.Run(ctx, stuck, layout, rowcheck.Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// hanging never ends a launch.
type hanging struct {
	program
	launched func()
}

func (h *hanging) Launch(*executor.Batch, func(error)) error { h.launched(); return nil }

// dense multiplies the row by a matrix and sums: independent. mean subtracts the mean of the batch first.
const (
	head = `module @m { func.func public @main(%x: tensor<@B@x16xf32>, %w: tensor<16x1xf32>) -> tensor<@B@x1xf32> {
  %d = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<@B@x16xf32>, tensor<16x1xf32>) -> tensor<@B@x1xf32>
`
	independent = head + `  %r = stablehlo.logistic %d : tensor<@B@x1xf32>
  return %r : tensor<@B@x1xf32>
} }`
	mean = head + `  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %s = stablehlo.reduce(%d init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<@B@x1xf32>, tensor<f32>) -> tensor<1xf32>
  %n = stablehlo.constant dense<@B@.0> : tensor<1xf32>
  %m = stablehlo.divide %s, %n : tensor<1xf32>
  %b = stablehlo.broadcast_in_dim %m, dims = [1] : (tensor<1xf32>) -> tensor<@B@x1xf32>
  %c = stablehlo.subtract %d, %b : tensor<@B@x1xf32>
  %r = stablehlo.logistic %c : tensor<@B@x1xf32>
  return %r : tensor<@B@x1xf32>
} }`
)

func openProgram(t *testing.T, text string) executor.Executor {
	w := make([]byte, 64)
	for i := range 16 {
		binary.LittleEndian.PutUint32(w[4*i:], math.Float32bits(0.1*float32(i)-0.7))
	}
	e, err := pjrt.New(pjrt.Options{
		PluginPath: pjrttest.CPU(t), Platform: "cpu", Program: pjrttest.Batch(text),
		Inputs:     []pjrt.Input{{Packed: 0}, {Weight: &pjrt.Weight{Name: "w", DType: dtype.Float32, Shape: []int{16, 1}, Data: w}}},
		Arrays:     []pjrt.Array{{DType: dtype.Float32, Stride: 64}},
		ScoreBytes: 4,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

func TestCompiledProgramsAreJudged(t *testing.T) {
	l := layout
	l.Buckets = []int{1, 2, 7, 64, 300}
	report, err := rowcheck.Run(context.Background(), openProgram(t, independent), l, rowcheck.Options{})
	if err != nil || len(report.Buckets) != 5 {
		t.Errorf("independent: got %+v, %v", report, err)
	}
	l.Buckets = []int{8}
	_, err = rowcheck.Run(context.Background(), openProgram(t, mean), l, rowcheck.Options{})
	if !errors.Is(err, rowcheck.ErrDependent) || !strings.Contains(err.Error(), "check rows of bucket 8: ") || !strings.Contains(err.Error(), "padding of NaN") {
		t.Errorf("mean of the batch: got %v, want ErrDependent for padding of NaN", err)
	}
}
