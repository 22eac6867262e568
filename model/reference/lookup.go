package reference

import (
	"errors"
	"fmt"
	"math"

	"rankd/internal/dtype"
	"rankd/model"
)

// Example is one row of a request.
type Example struct {
	Bags  []Bag       // one per table of the manifest
	Dense [][]float32 // one per dense input, as wide as the manifest says
}

// Bag is the ids of one example for one table.
type Bag struct {
	IDs     []int64
	Weights []float32 // one per id; nil means 1 each
}

// Lookup is the tables of a bundle.
type Lookup struct {
	manifest *model.Manifest
	files    []*model.Tensors
	rows     []model.Tensor // per table
}

// OpenLookup maps the tables of b. The caller closes it.
func OpenLookup(b *model.Bundle) (*Lookup, error) {
	l := &Lookup{manifest: b.Manifest}
	for i := range b.Manifest.Tables {
		file, rows, err := b.OpenTable(i)
		if err != nil {
			return nil, errors.Join(err, l.Close())
		}
		l.files = append(l.files, file)
		l.rows = append(l.rows, rows)
	}
	return l, nil
}

// Close unmaps the tables.
func (l *Lookup) Close() error {
	var errs []error
	for _, f := range l.files {
		errs = append(errs, f.Close())
	}
	l.files, l.rows = nil, nil
	return errors.Join(errs...)
}

// Pool looks up the bag in table t and combines its rows into one vector of Dim elements. An empty bag gives zeros,
// and so does a divisor of zero.
//
// With weights w (1 each where the bag has none), x the rows and n the number of ids:
//
//	sum    sum of w*x
//	mean   sum of w*x / sum of w
//	sqrtn  sum of w*x / sqrt(sum of w*w)
func (l *Lookup) Pool(t int, bag Bag) ([]float64, error) {
	table := &l.manifest.Tables[t]
	if bag.Weights != nil && len(bag.Weights) != len(bag.IDs) {
		return nil, fmt.Errorf("pool table %q: weights: got %d, want %d (one per id)", table.Name, len(bag.Weights), len(bag.IDs))
	}
	if table.Hotness != 0 && len(bag.IDs) != table.Hotness {
		return nil, fmt.Errorf("pool table %q: ids: got %d, want %d", table.Name, len(bag.IDs), table.Hotness)
	}
	pooled, elements := make([]float64, table.Dim), make([]float64, table.Dim)
	sum, squares := 0.0, 0.0
	for k, id := range bag.IDs {
		w := 1.0
		if bag.Weights != nil {
			w = float64(bag.Weights[k])
		}
		sum += w
		squares += w * w
		row, found, err := applyPolicy(table, id)
		if err != nil {
			return nil, fmt.Errorf("pool table %q: position %d: %w", table.Name, k, err)
		}
		if !found {
			continue // zero policy: counted, adds nothing
		}
		width := int64(model.RowBytes(table.RowDType, table.Dim))
		model.Row(elements, table.RowDType, l.rows[t].Data[row*width:][:width])
		for d, x := range elements {
			pooled[d] += w * x
		}
	}
	divisor := 1.0
	switch table.Combiner {
	case model.CombinerMean:
		divisor = sum
	case model.CombinerSqrtN:
		divisor = math.Sqrt(squares)
	}
	for d := range pooled {
		if divisor == 0 {
			pooled[d] = 0
		} else {
			pooled[d] /= divisor
		}
	}
	return pooled, nil
}

// PoolAll looks up and combines the bags of an example: one vector a table, as the network is given it. Where the model's
// program takes pooled vectors as bfloat16 they are rounded, to float32 and then to that.
func (l *Lookup) PoolAll(bags []Bag) ([][]float64, error) {
	pooled := make([][]float64, len(bags))
	for t, bag := range bags {
		var err error
		if pooled[t], err = l.Pool(t, bag); err != nil {
			return nil, err
		}
		if l.manifest.PooledDType(&l.manifest.Tables[t]) == dtype.BFloat16 {
			for d, x := range pooled[t] {
				pooled[t][d] = float64(dtype.BFloat16ToFloat32(dtype.Float32ToBFloat16(float32(x))))
			}
		}
	}
	return pooled, nil
}

// applyPolicy returns the row that id reads, or false for a row of zeros.
func applyPolicy(t *model.Table, id int64) (row int64, found bool, err error) {
	if id >= 0 && id < t.Rows {
		return id, true, nil
	}
	switch t.IDPolicy {
	case model.PolicyClamp:
		return min(max(id, 0), t.Rows-1), true, nil
	case model.PolicyZero:
		return 0, false, nil
	case model.PolicyHashMod:
		return (id%t.Rows + t.Rows) % t.Rows, true, nil
	}
	return 0, false, fmt.Errorf("id: got %d, want 0 to %d", id, t.Rows-1)
}
