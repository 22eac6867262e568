package predict

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
)

// The columns of Criteo's click logs.
const (
	criteoInts    = 13
	criteoIDs     = 26
	criteoColumns = 1 + criteoInts + criteoIDs
	criteoStride  = 7919 // a prime: the rows of a bag share no pages
)

// OpenCriteo opens a click log. The schema must say how many rows the tables have.
func OpenCriteo(name string, s *Schema) (Source, error) {
	if err := fitsCriteo(s); err != nil {
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	return openLines(name, s, func(line []byte, r *rows) error { return parseCriteo(line, r) })
}

func fitsCriteo(s *Schema) error {
	if len(s.Dense) != 1 || s.Dense[0].Width != criteoInts || len(s.Tables) != criteoIDs {
		return fmt.Errorf("the model takes %d dense inputs and %d tables, want one dense input of width %d and %d tables for a Criteo file",
			len(s.Dense), len(s.Tables), criteoInts, criteoIDs)
	}
	for _, t := range s.Tables {
		if t.Rows == 0 {
			return fmt.Errorf("the rows of table %q are not known, want the model's bundle (--model) for a Criteo file", t.Name)
		}
	}
	return nil
}

// parseCriteo adds one example. Columns count from 1 in errors, and lie between tabs.
func parseCriteo(line []byte, r *rows) error {
	line = bytes.TrimSuffix(line, []byte("\r"))
	if got := 1 + bytes.Count(line, []byte("\t")); got != criteoColumns {
		return fmt.Errorf("got %d columns, want %d: label, %d integers, %d hexadecimal ids", got, criteoColumns, criteoInts, criteoIDs)
	}
	for column := range criteoColumns {
		field, rest, _ := bytes.Cut(line, []byte("\t"))
		line = rest
		var err error
		switch {
		case column == 0:
			if s := string(field); s != "0" && s != "1" {
				err = fmt.Errorf("got label %q, want 0 or 1", s)
			}
		case column <= criteoInts:
			err = criteoInteger(field, r)
		default:
			err = criteoID(field, column-1-criteoInts, r)
		}
		if err != nil {
			return fmt.Errorf("column %d: %w", column+1, err)
		}
	}
	return nil
}

func criteoInteger(field []byte, r *rows) error {
	var x int64
	if len(field) > 0 {
		var err error
		if x, err = strconv.ParseInt(string(field), 10, 64); err != nil {
			return fmt.Errorf("got %q, want an integer or nothing", field)
		}
	}
	r.addDense(0, float32(math.Log1p(float64(max(x, 0)))))
	return nil
}

func criteoID(field []byte, table int, r *rows) error {
	var x uint64
	if len(field) > 0 {
		var err error
		if x, err = strconv.ParseUint(string(field), 16, 64); err != nil {
			return fmt.Errorf("got %q, want a hexadecimal id or nothing", field)
		}
	}
	t := &r.schema.Tables[table]
	n := uint64(t.Rows)
	hot := max(t.Hot, 1)
	for k := range hot {
		r.addID(table, int64((x%n+uint64(k)*criteoStride)%n))
	}
	r.endBag(table, hot)
	return nil
}
