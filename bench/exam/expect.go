package exam

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"rankd/deviceowner/sim"
	"rankd/model"
	"rankd/model/reference"
)

// expect computes the score matrix [examples, columns] or reads it from the cache.
func expect(ctx context.Context, b *model.Bundle, o *Options, examples []reference.Example) ([]float32, error) {
	path, err := cachePath(b.Manifest, o)
	if err != nil {
		return nil, err
	}
	want := len(examples) * b.Manifest.ScoreColumns()
	if data, err := os.ReadFile(path); path != "" && err == nil && len(data) == 4*want {
		scores := make([]float32, want)
		for i := range scores {
			scores[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
		}
		return scores, nil
	}
	scores, err := compute(ctx, b, o, examples)
	if err != nil || path == "" {
		return scores, err
	}
	data := make([]byte, 0, 4*len(scores))
	for _, s := range scores {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(s))
	}
	if err := os.WriteFile(path+".new", data, 0o644); err != nil {
		return nil, fmt.Errorf("keep expectations: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return nil, fmt.Errorf("keep expectations: %w", err)
	}
	return scores, nil
}

// cachePath names a file by all that determines its content.
func cachePath(m *model.Manifest, o *Options) (string, error) {
	if o.CacheDir == "" {
		return "", nil
	}
	if err := os.MkdirAll(o.CacheDir, 0o755); err != nil {
		return "", fmt.Errorf("keep expectations: %w", err)
	}
	workload := o.Workload
	if workload == Independent {
		workload = "" // as it was before there were others
	}
	key, err := json.Marshal(struct {
		Format        int
		Manifest      *model.Manifest
		Examples      int
		Seed          uint64
		IDs, Executor string
		Workload      string `json:",omitempty"`
	}{1, m, o.Examples, o.Seed, o.IDs, o.Executor, workload})
	if err != nil {
		return "", fmt.Errorf("keep expectations: %w", err)
	}
	sum := sha256.Sum256(key)
	return filepath.Join(o.CacheDir, "expect-"+hex.EncodeToString(sum[:12])+".f32"), nil
}

func compute(ctx context.Context, b *model.Bundle, o *Options, examples []reference.Example) ([]float32, error) {
	l, err := reference.OpenLookup(b)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	score, err := scorer(b, o.Executor)
	if err != nil {
		return nil, err
	}
	columns := b.Manifest.ScoreColumns()
	scores := make([]float32, len(examples)*columns)
	err = inParallel(ctx, len(examples), func(e int) error {
		pooled, err := l.PoolAll(examples[e].Bags)
		if err != nil {
			return fmt.Errorf("expect example %d: %w", e, err)
		}
		score(scores[e*columns:][:columns], pooled, examples[e].Dense)
		return nil
	})
	return scores, err
}

// scorer gives the function from pooled vectors and dense features to scores.
func scorer(b *model.Bundle, executor string) (func(dst []float32, pooled [][]float64, dense [][]float32), error) {
	if executor == Sim {
		l, err := sim.LayoutOf(b.Manifest)
		if err != nil {
			return nil, err
		}
		return func(dst []float32, pooled [][]float64, dense [][]float32) {
			l.Score(dst, reference.PackedRow(b.Manifest, pooled, dense), 0, false)
		}, nil
	}
	network, err := reference.OpenNetwork(b)
	if err != nil {
		return nil, err
	}
	return func(dst []float32, pooled [][]float64, dense [][]float32) {
		for i, v := range network(pooled, dense) {
			dst[i] = float32(v)
		}
	}, nil
}
