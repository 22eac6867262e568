package bind

import (
	"math"

	"rankd/frontend/wire"
	"rankd/internal/dtype"
	"rankd/tables"
)

// bindTables finds the form of each table's ids and fills q.Bags, but for the offsets of ragged ones.
func (b *Binder) bindTables(r *wire.Request, q *Query) error {
	if b.columns > 0 {
		if t := q.tensor(r, b.packedAt()); t != nil {
			return b.bindPacked(r, q, t)
		}
	}
	for i := range b.tables {
		ids := q.tensor(r, at(i, roleIDs))
		ragged := b.firstRagged(q, i)
		var err error
		switch {
		case ids != nil && ragged >= 0:
			err = b.twoForms(i, at(i, roleIDs), ragged)
		case ids != nil:
			err = b.bindOwn(r, q, i, ids)
		case ragged >= 0:
			err = b.bindRagged(r, q, i)
		default:
			err = b.missingTable(i)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// firstRagged is the first input of table i's ragged form that came, as an index into b.inputs; -1 if none did.
func (b *Binder) firstRagged(q *Query, i int) int {
	for r := roleValues; r <= roleWeights; r++ {
		if q.place[at(i, r)] != 0 {
			return at(i, r)
		}
	}
	return -1
}

func (b *Binder) twoForms(i, one, other int) error {
	return wire.Errorf(wire.ReasonDuplicate, "bind table %q: got both %q and %q, want one form of its ids",
		b.tables[i].Name, b.inputs[one].name, b.inputs[other].name)
}

func (b *Binder) missingTable(i int) error {
	name, packed := b.tables[i].Name, ""
	if b.columns > 0 {
		packed = `, or "ids" for all tables`
	}
	return wire.Errorf(wire.ReasonMissing, "bind input %q: it is missing, want it, or %q with %q or %q%s; the model takes %s",
		name, name+".values", name+".lengths", name+".offsets", packed, b.takes)
}

// bindPacked binds the one tensor that holds the ids of all tables.
func (b *Binder) bindPacked(r *wire.Request, q *Query, t *wire.Tensor) error {
	for i := range b.tables {
		for role := roleIDs; role <= roleWeights; role++ {
			if q.place[at(i, role)] != 0 {
				return b.twoForms(i, b.packedAt(), at(i, role))
			}
		}
	}
	width, err := integers(r, t)
	if err != nil {
		return err
	}
	rows, _, err := b.matrix(t, b.columns)
	if err != nil {
		return err
	}
	for i := range b.tables {
		q.Bags[i] = tables.Bags{Values: t.Data, Width: width, First: b.first[i], Hot: b.tables[i].Hotness, Step: b.columns}
		q.batches[i] = batch{rows, b.packedAt()}
	}
	return nil
}

// bindOwn binds a table's own tensor [B, hot].
func (b *Binder) bindOwn(r *wire.Request, q *Query, i int, t *wire.Tensor) error {
	width, err := integers(r, t)
	if err != nil {
		return err
	}
	rows, hot, err := b.matrix(t, b.tables[i].Hotness)
	if err != nil {
		return err
	}
	q.Bags[i] = tables.Bags{Values: t.Data, Width: width, Hot: hot, Step: hot}
	q.batches[i] = batch{rows, at(i, roleIDs)}
	return nil
}

// bindRagged binds all of a ragged form but its offsets, which wait until the number of rows is known to be in bounds.
func (b *Binder) bindRagged(r *wire.Request, q *Query, i int) error {
	values := q.tensor(r, at(i, roleValues))
	lengths, offsets := q.tensor(r, at(i, roleLengths)), q.tensor(r, at(i, roleOffsets))
	name := b.tables[i].Name
	switch {
	case values == nil:
		return wire.Errorf(wire.ReasonMissing, "bind input %q: it is missing beside %q, want it", name+".values", b.inputs[b.firstRagged(q, i)].name)
	case lengths == nil && offsets == nil:
		return wire.Errorf(wire.ReasonMissing, "bind input %q: it is missing beside %q, want it or %q", name+".lengths", name+".values", name+".offsets")
	case lengths != nil && offsets != nil:
		return b.twoForms(i, at(i, roleLengths), at(i, roleOffsets))
	}
	width, err := integers(r, values)
	if err != nil {
		return err
	}
	nnz, err := vector(values, "[nnz]")
	if err != nil {
		return err
	}
	if nnz > math.MaxInt32 {
		return wire.Errorf(wire.ReasonShape, "bind input %s: it has %d ids, want at most %d", wire.Quote(values.Name), nnz, math.MaxInt32)
	}
	q.Bags[i] = tables.Bags{Values: values.Data, Width: width}
	if q.batches[i], err = b.raggedRows(r, i, lengths, offsets); err != nil {
		return err
	}
	if weights := q.tensor(r, at(i, roleWeights)); weights != nil {
		return b.bindWeights(r, &q.Bags[i], weights, nnz)
	}
	return nil
}

// raggedRows counts the rows that lengths or offsets, whichever is not nil, stand for.
func (b *Binder) raggedRows(r *wire.Request, i int, lengths, offsets *wire.Tensor) (batch, error) {
	t, want, in := lengths, "[B]", at(i, roleLengths)
	if t == nil {
		t, want, in = offsets, "[B+1]", at(i, roleOffsets)
	}
	if _, err := integers(r, t); err != nil {
		return batch{}, err
	}
	rows, err := vector(t, want)
	if err != nil {
		return batch{}, err
	}
	if t == offsets {
		rows--
	}
	if rows < 1 {
		return batch{}, noRows(t, wire.ShapeString(t.Shape))
	}
	return batch{rows, in}, nil
}

func (b *Binder) bindWeights(r *wire.Request, bags *tables.Bags, t *wire.Tensor, nnz int) error {
	if t.DType != dtype.Float32 {
		return wire.Errorf(wire.ReasonDType, "bind input %s: got %s, want %s", wire.Quote(t.Name), r.DTypeName(t.DType), r.DTypeName(dtype.Float32))
	}
	n, err := vector(t, "[nnz]")
	if err != nil {
		return err
	}
	if n != nnz {
		return wire.Errorf(wire.ReasonShape, "bind input %s: it has %d weights, want %d, one for each id", wire.Quote(t.Name), n, nnz)
	}
	bags.Weights = t.Data
	return nil
}
