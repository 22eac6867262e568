package reference

import (
	"context"
	"fmt"
	"runtime"

	"golang.org/x/sync/errgroup"

	"rankd/model"
)

// Network is the dense part of a model: pooled vectors (one per table) and dense features (one slice per dense input) of one
// example to the columns of its result.
type Network func(pooled [][]float64, dense [][]float32) []float64

// Scores looks up and scores all examples on all cores. Row i of the result has the manifest's ScoreColumns columns of example i.
func Scores(ctx context.Context, m *model.Manifest, l *Lookup, network Network, examples []Example) ([][]float64, error) {
	scores := make([][]float64, len(examples))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i := range examples {
		g.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			s, err := score(m, l, network, &examples[i])
			if err != nil {
				return fmt.Errorf("score example %d: %w", i, err)
			}
			scores[i] = s
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return scores, nil
}

func score(m *model.Manifest, l *Lookup, network Network, e *Example) ([]float64, error) {
	if len(e.Bags) != len(m.Tables) || len(e.Dense) != len(m.Dense) {
		return nil, fmt.Errorf("got %d bags and %d dense inputs, want %d and %d", len(e.Bags), len(e.Dense), len(m.Tables), len(m.Dense))
	}
	for i, d := range e.Dense {
		if len(d) != m.Dense[i].Width {
			return nil, fmt.Errorf("dense input %q: got %d features, want %d", m.Dense[i].Name, len(d), m.Dense[i].Width)
		}
	}
	pooled, err := l.PoolAll(e.Bags)
	if err != nil {
		return nil, err
	}
	out := network(pooled, e.Dense)
	if len(out) != m.ScoreColumns() {
		return nil, fmt.Errorf("network: got %d columns, want %d", len(out), m.ScoreColumns())
	}
	return out, nil
}
