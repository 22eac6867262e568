package device_test

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"rankd/deviceowner/device"
	"rankd/deviceowner/executor"
	"rankd/deviceowner/pjrt/pjrttest"
	"rankd/model/demo"
)

// mostBetweenBuckets is what docs/api.md promises for the demo on the cpu platform: scores are from 0 to 1, and XLA computes a
// batch of another size with other code, whose sums have another order.
const mostBetweenBuckets = 1e-5

// TestOneRowScoresNearlyAlikeInEveryBatch: a row gets the same bits whatever the batch holds besides it, as long as the batch has the
// same size, and nearly the same score in a batch of another size.
func TestOneRowScoresNearlyAlikeInEveryBatch(t *testing.T) {
	buckets := []int{1, 2, 4, 8, 16, 32, 64, 128}
	b, err := demo.Create(t.Context(), demo.Options{
		Dir: filepath.Join(t.TempDir(), "demo"), Seed: 7, MaxVocab: 50, Buckets: buckets, MaxBatch: 128, Golden: -1,
	})
	if err != nil {
		t.Fatal(err)
	}
	e := open(t, b, device.Options{Kind: device.KindPJRT, Plugin: pjrttest.CPU(t), Platform: "cpu"})
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	stride, count := b.Manifest.Packed[0].Stride, buckets[len(buckets)-1]
	rows := make([]byte, count*stride)
	for i := 0; i < len(rows); i += 4 {
		binary.LittleEndian.PutUint32(rows[i:], math.Float32bits(float32(rng.NormFloat64())))
	}
	scores := map[int][]float32{}
	for _, bucket := range buckets {
		if err := e.Compile(t.Context(), bucket); err != nil {
			t.Fatal(err)
		}
		scores[bucket] = scoreInBatchesOf(t, e, bucket, stride, rows, rng.Perm(count))
		again := scoreInBatchesOf(t, e, bucket, stride, rows, rng.Perm(count))
		for i, s := range scores[bucket] {
			if math.Float32bits(s) != math.Float32bits(again[i]) {
				t.Errorf("row %d in two batches of %d rows: got %v and %v, want the same bits", i, bucket, s, again[i])
			}
		}
	}
	largest, differ := 0.0, 0
	for _, bucket := range buckets {
		for i, s := range scores[bucket] {
			d := math.Abs(float64(s) - float64(scores[1][i]))
			largest = max(largest, d)
			if d > 0 {
				differ++
			}
		}
	}
	t.Logf("between batch sizes: largest difference %.3g, %d of %d scores differ", largest, differ, count*(len(buckets)-1))
	if largest > mostBetweenBuckets {
		t.Errorf("between batch sizes: got a difference of %g, want at most %g", largest, mostBetweenBuckets)
	}
}

// scoreInBatchesOf scores rows in the given order, bucket rows at a time, and returns their scores by row.
func scoreInBatchesOf(t *testing.T, e executor.Executor, bucket, stride int, rows []byte, order []int) []float32 {
	t.Helper()
	scores := make([]float32, len(order))
	batch := &executor.Batch{Bucket: bucket, Rows: bucket, Arrays: [][]byte{make([]byte, bucket*stride)}, Scores: make([]byte, 4*bucket)}
	for first := 0; first < len(order); first += bucket {
		for i, row := range order[first:][:bucket] {
			copy(batch.Arrays[0][i*stride:][:stride], rows[row*stride:])
		}
		done := make(chan error, 1)
		if err := e.Launch(batch, func(err error) { done <- err }); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		for i, row := range order[first:][:bucket] {
			scores[row] = math.Float32frombits(binary.LittleEndian.Uint32(batch.Scores[4*i:]))
		}
	}
	return scores
}
