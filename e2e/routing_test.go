package e2e

import (
	"context"
	"math/rand/v2"
	"testing"

	"rankd/deviceowner/pjrt/pjrttest"
	"rankd/internal/dtype"
	"rankd/model"
	"rankd/model/demo"
)

// route sends requests of many callers at once and wants every row's own score.
func route(t *testing.T, s *server, l *load) {
	t.Helper()
	l.lanes = flat(s.lanes(len(s.frontends()), 4))
	l.start().done.Wait()
	l.wantRight(t)
	l.wantNoFailure(t, noExcuse)
	m := s.scrape()
	for _, name := range []string{"rankd_panics_total", "rankd_compiles_after_ready_total", "rankd_device_errors_total"} {
		if v, there := m[name]; v != 0 || !there {
			t.Errorf("got %s %v (%v), want 0", name, v, there)
		}
	}
	if got, want := m.sum("rankd_rows_total"), float64(l.rowsOK.Load()); got < want {
		t.Errorf("got %v rows counted, want at least the %v that were scored", got, want)
	}
}

// Pooled vectors of two bytes have a packed array of their own beside that of the dense features.
func TestPooledVectorsOfTwoBytesArriveWithTheirRows(t *testing.T) {
	t.Run("simulated accelerator", func(t *testing.T) {
		seed := seedOf(t)
		b := bundle(t, "demo-half", func(ctx context.Context, dir string) (*model.Bundle, error) {
			return demo.Create(ctx, demo.Options{Dir: dir, Seed: 1, MaxVocab: 1000, Small: true, MaxBatch: 512, Pooled: dtype.BFloat16})
		})
		s := serve(t, options{model: b.Dir, flags: []string{
			"--executor=sim", "--sim-verify=full", "--frontends=2", "--buckets=1,16,64,256,512",
		}})
		route(t, s, &load{
			exam: newExam(t, b, seed, 2048, simulated(t, b.Manifest)), callers: 50, seed: seed, rows: mixedRows(512, 512), total: 500,
		})
	})
	t.Run("CPU plugin", func(t *testing.T) {
		plugin := pjrttest.CPU(t)
		seed := seedOf(t)
		b := bundle(t, "test-half", func(ctx context.Context, dir string) (*model.Bundle, error) {
			return demo.CreateTest(ctx, demo.TestOptions{Dir: dir, Pooled: dtype.BFloat16})
		})
		s := serve(t, options{model: b.Dir, flags: []string{
			"--executor=pjrt", "--platform=cpu", "--plugin=" + plugin, "--frontends=2", "--device-threads=1",
		}})
		route(t, s, &load{exam: newExam(t, b, seed, 512, closedHalf), callers: 32, seed: seed, rows: mixedRows(256, 256), total: 200})
	})
}

func TestEveryRowGetsItsOwnScoreUnderConcurrency(t *testing.T) {
	t.Run("simulated accelerator", func(t *testing.T) {
		seed, b := seedOf(t), smallDemo(t)
		s := serve(t, options{model: b.Dir, flags: []string{
			"--executor=sim", "--sim-verify=full", "--frontends=2", "--buckets=1,16,64,256,512",
		}})
		route(t, s, &load{
			exam: newExam(t, b, seed, 4096, simulated(t, b.Manifest)), callers: 200, seed: seed,
			rows: mixedRows(512, 512), total: int64(size(t, "RANKD_E2E_REQUESTS", 3000)),
		})
	})
	t.Run("CPU plugin", func(t *testing.T) {
		plugin := pjrttest.CPU(t)
		seed, b := seedOf(t), testModel(t)
		s := serve(t, options{model: b.Dir, flags: []string{
			"--executor=pjrt", "--platform=cpu", "--plugin=" + plugin, "--frontends=2", "--device-threads=1",
		}})
		route(t, s, &load{
			exam: newExam(t, b, seed, 2048, closedForm), callers: 64, seed: seed,
			rows: mixedRows(256, 256), total: int64(size(t, "RANKD_E2E_PJRT_REQUESTS", 200)),
		})
	})
}

func TestEveryBatchingPolicyKeepsRowsApart(t *testing.T) {
	seed, b := seedOf(t), testModel(t)
	e := newExam(t, b, seed, 4096, simulated(t, b.Manifest))
	for name, flags := range map[string][]string{
		"continuous": nil,
		"linger":     {"--max-delay=2ms"},
		"fused":      {"--max-delay=2ms"},
		"off":        nil,
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, options{model: b.Dir, flags: append([]string{
				"--executor=sim", "--sim-verify=full", "--frontends=2", "--batching=" + name,
			}, flags...)})
			route(t, s, &load{exam: e, callers: 32, seed: seed, rows: mixedRows(256, 256), total: 600})
		})
	}
}

// Slabs of a few rows, one batch on the device: every request spans batches, and room is always short.
func TestTinySlabsKeepRowsApart(t *testing.T) {
	seed, b := seedOf(t), testModel(t)
	e := newExam(t, b, seed, 4096, simulated(t, b.Manifest))
	for name, flags := range map[string][]string{
		"one row":       {"--buckets=1", "--chunk-rows=1"},
		"three rows":    {"--buckets=1,3", "--chunk-rows=2"},
		"chunk of slab": {"--buckets=2,4,8", "--chunk-rows=8"},
		"off":           {"--buckets=4", "--batching=off"},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, options{model: b.Dir, flags: append([]string{
				"--executor=sim", "--sim-verify=full", "--sim-call=20us", "--frontends=2", "--pipeline-depth=1",
			}, flags...)})
			route(t, s, &load{
				exam: e, callers: 24, seed: seed, total: 300,
				rows: func(rng *rand.Rand) int { return 1 + rng.IntN(40) },
			})
		})
	}
}
