package tables

import "fmt"

// Bags is the ids of one table for all rows of a request. It aliases the request's bytes and owns nothing.
type Bags struct {
	Values    []byte  // ids, little-endian, packed, at any alignment
	Width     int     // bytes an id: 4 (int32) or 8 (int64)
	First     int     // fixed hotness: index in Values of row 0's first id
	Hot       int     // fixed hotness: ids a bag
	Step      int     // fixed hotness: ids from the start of one row's bag to the next (own tensor: Hot; packed ids: all columns)
	Offsets   []int32 // ragged: rows+1 ascending indices into Values; nil where the hotness is fixed
	Weights   []byte  // float32, little-endian, one per id of Values, or nil
	Broadcast bool    // row 0's bag serves every row
}

// span is the bag of row as a range of ids. A bag that does not lie in Values is empty.
func (b *Bags) span(row int) (lo, hi int) {
	if b.Broadcast {
		row = 0
	}
	if b.Offsets != nil {
		if row < 0 || row >= len(b.Offsets)-1 {
			return 0, 0
		}
		lo, hi = int(b.Offsets[row]), int(b.Offsets[row+1])
	} else {
		lo = b.First + row*b.Step
		hi = lo + b.Hot
	}
	ids := b.ids()
	if b.Weights != nil {
		ids = min(ids, len(b.Weights)/4)
	}
	if lo < 0 || hi < lo || hi > ids {
		return 0, 0
	}
	return lo, hi
}

// ids is the number of ids in Values.
func (b *Bags) ids() int {
	if b.Width == 4 {
		return len(b.Values) / 4
	}
	return len(b.Values) / 8
}

// check verifies that the bags of rows rows lie in Values.
func (b *Bags) check(rows int) error {
	if b.Width != 4 && b.Width != 8 {
		return fmt.Errorf("width: got %d bytes, want 4 or 8", b.Width)
	}
	if len(b.Values)%b.Width != 0 {
		return fmt.Errorf("values: got %d bytes, want a multiple of %d", len(b.Values), b.Width)
	}
	ids := b.ids()
	if b.Weights != nil && len(b.Weights) != 4*ids {
		return fmt.Errorf("weights: got %d bytes, want %d for %d ids", len(b.Weights), 4*ids, ids)
	}
	if b.Broadcast {
		rows = min(rows, 1)
	}
	if b.Offsets != nil {
		if len(b.Offsets) != rows+1 {
			return fmt.Errorf("offsets: got %d, want %d", len(b.Offsets), rows+1)
		}
		last := int32(0)
		for i, o := range b.Offsets {
			if o < last || int(o) > ids {
				return fmt.Errorf("offset %d: got %d, want %d to %d", i, o, last, ids)
			}
			last = o
		}
		return nil
	}
	if b.First < 0 || b.Hot < 0 || b.Step < 0 {
		return fmt.Errorf("fixed bags: got first %d, hot %d, step %d, want none below 0", b.First, b.Hot, b.Step)
	}
	if rows == 0 {
		return nil
	}
	// First + (rows-1)*Step + Hot <= ids, without overflow.
	room := ids - b.Hot - b.First
	if b.Hot > ids || b.First > ids || room < 0 || (rows > 1 && b.Step > room/(rows-1)) {
		return fmt.Errorf("fixed bags: got first %d, hot %d, step %d for %d rows, want them within %d ids", b.First, b.Hot, b.Step, rows, ids)
	}
	return nil
}

// Validate checks the bags of a request of rows rows, bags[i] for table i. An id outside a table whose policy is reject
// gives an *IDError for the first such id of the first such table; wrongly described bags give ErrBags.
// Ids are signed: 0xffffffff of width 4 is -1.
func (s *Set) Validate(bags []Bags, rows int) error {
	if len(bags) != len(s.tables) || rows < 0 {
		return fmt.Errorf("%w: got %d bags for %d rows, want %d", ErrBags, len(bags), rows, len(s.tables))
	}
	for i := range bags {
		b, t := &bags[i], &s.tables[i]
		if err := b.check(rows); err != nil {
			return fmt.Errorf("%w: table %q: %w", ErrBags, t.name, err)
		}
		if t.policy == reject {
			if err := t.checkIDs(b, rows); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkIDs finds the first id outside the table. The bags have been checked.
func (t *table) checkIDs(b *Bags, rows int) error {
	if rows == 0 {
		return nil
	}
	if b.Broadcast {
		rows = 1
	}
	lo, end := b.span(0)
	joined := b.Offsets != nil || b.Step == b.Hot // all bags are one run of ids
	if joined && b.Offsets != nil {
		end = int(b.Offsets[rows])
	} else if joined {
		end = lo + rows*b.Hot
	}
	if joined && t.firstOutside(b, lo, end) < 0 {
		return nil
	}
	for row := range rows {
		lo, hi := b.span(row)
		if i := t.firstOutside(b, lo, hi); i >= 0 {
			return &IDError{Table: t.name, Row: row, Position: i - lo, ID: b.id(i), Rows: int64(t.rows)}
		}
	}
	return nil
}

// firstOutside gives the index of the first id in [lo, hi) that is not a row, or -1. Below zero is far above as unsigned.
func (t *table) firstOutside(b *Bags, lo, hi int) int {
	if b.Width == 4 {
		v := b.Values[4*lo : 4*hi]
		for i := 0; i+4 <= len(v); i += 4 {
			if uint64(int32(le.Uint32(v[i:]))) >= t.rows {
				return lo + i/4
			}
		}
		return -1
	}
	v := b.Values[8*lo : 8*hi]
	for i := 0; i+8 <= len(v); i += 8 {
		if le.Uint64(v[i:]) >= t.rows {
			return lo + i/8
		}
	}
	return -1
}

func (b *Bags) id(i int) int64 {
	if b.Width == 4 {
		return int64(int32(le.Uint32(b.Values[4*i:])))
	}
	return int64(le.Uint64(b.Values[8*i:]))
}
