package exam

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"

	"golang.org/x/sync/errgroup"

	"rankd/model"
	"rankd/model/reference"
)

// raggedMax is the most ids in a bag of a ragged table; all sizes from 0 are as likely.
const raggedMax = 8

// scatter is a prime by which the ranks of a zipf distribution are spread over the rows of a table, since rows that are asked for often
// do not lie side by side.
const scatter = 2654435761

// draw makes the examples, each from a generator of its own (I1).
func draw(ctx context.Context, m *model.Manifest, o *Options, u *users) ([]reference.Example, error) {
	exponent, err := o.exponent()
	if err != nil {
		return nil, err
	}
	for i := range m.Tables {
		if o.Width == 4 && m.Tables[i].Rows > 1<<31 {
			return nil, fmt.Errorf("draw ids of table %q: got %d rows for ids of 4 bytes, want ids of 8 bytes", m.Tables[i].Name, m.Tables[i].Rows)
		}
	}
	examples := make([]reference.Example, o.Examples)
	owners := u.draw(m, o, exponent)
	err = inParallel(ctx, len(examples), func(e int) error {
		examples[e] = drawExample(rand.New(rand.NewPCG(o.Seed, uint64(e))), m, exponent)
		if u.count > 0 {
			u.join(&examples[e], &owners[u.of(e)])
		}
		return nil
	})
	return examples, err
}

func drawExample(rng *rand.Rand, m *model.Manifest, exponent float64) (x reference.Example) {
	for i := range m.Tables {
		x.Bags = append(x.Bags, reference.Bag{IDs: drawBag(rng, &m.Tables[i], exponent)})
	}
	for i := range m.Dense {
		row := make([]float32, m.Dense[i].Width)
		for k := range row {
			row[k] = rng.Float32()
		}
		x.Dense = append(x.Dense, row)
	}
	return x
}

func drawBag(rng *rand.Rand, t *model.Table, exponent float64) []int64 {
	n := t.Hotness
	if n == 0 {
		n = rng.IntN(raggedMax + 1)
	}
	ids := make([]int64, n)
	if exponent == 0 {
		for k := range ids {
			ids[k] = rng.Int64N(t.Rows)
		}
		return ids
	}
	zipf := rand.NewZipf(rng, exponent, 1, uint64(t.Rows-1))
	for k := range ids {
		ids[k] = int64(zipf.Uint64() * scatter % uint64(t.Rows))
	}
	return ids
}

// inParallel calls f for 0 to n-1, on all processors, in pieces. It stops at the first error, and when its context ends.
func inParallel(outer context.Context, n int, f func(i int) error) error {
	const piece = 64
	g, ctx := errgroup.WithContext(outer)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for first := 0; first < n && ctx.Err() == nil; first += piece {
		g.Go(func() error {
			for i := first; i < min(first+piece, n); i++ {
				if err := ctx.Err(); err != nil { // between examples: one of a large network takes long
					return err
				}
				if err := f(i); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return outer.Err() // it may have ended before a piece began
}
