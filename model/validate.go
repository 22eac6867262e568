package model

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"rankd/internal/dtype"
)

// Bounds of a manifest. They are far above any model in use; their point is that sizes computed from accepted numbers
// cannot overflow.
const (
	slotAlign     = 64      // of pooled vectors and strides: a cache line, the width of the widest kernel
	maxBatchLimit = 65536   // rows a batch
	maxTables     = 4096    // tables, and also dense inputs and outputs
	maxDim        = 1 << 16 // of a table, and columns of a dense input or of all outputs
	maxHotness    = 1 << 20 // ids a bag
	maxStride     = 1 << 24 // bytes a packed row
	maxNameBytes  = 256
)

// Violation is one thing that is wrong with a manifest.
type Violation struct {
	Field string // such as "tables[3].slot.offset"
	Got   string
	Want  string
}

func (v *Violation) Error() string { return fmt.Sprintf("%s: got %s, want %s", v.Field, v.Got, v.Want) }

// Validate reports every violation at once, as an error that joins one *Violation each, or nil (I1).
func (m *Manifest) Validate() error {
	v := &validator{m: m, inputs: map[string]string{}}
	v.identity()
	v.tables()
	v.dense()
	v.packed()
	v.slots()
	v.outputs()
	v.buckets()
	v.program()
	v.digests()
	if len(v.errs) == 0 {
		return nil
	}
	return fmt.Errorf("validate manifest: %w", errors.Join(v.errs...))
}

type validator struct {
	m      *Manifest
	inputs map[string]string // input name -> the field that has it
	errs   []error
}

func (v *validator) add(field string, got any, want string, args ...any) {
	v.errs = append(v.errs, &Violation{Field: field, Got: fmt.Sprint(got), Want: fmt.Sprintf(want, args...)})
}

func (v *validator) between(field string, got, low, high int64) bool {
	if got < low || got > high {
		v.add(field, got, "%d to %d", low, high)
		return false
	}
	return true
}

func (v *validator) oneOf(field, got string, want []string) {
	if !slices.Contains(want, got) {
		v.add(field, strconv.Quote(got), "one of %s", strings.Join(want, ", "))
	}
}

// name checks a name that clients or messages use: input names are composed with '.', and NUL ends strings elsewhere.
func (v *validator) name(field, name string) bool {
	switch {
	case name == "":
		v.add(field, `""`, "a name")
	case len(name) > maxNameBytes:
		v.add(field, fmt.Sprintf("%d bytes", len(name)), "at most %d", maxNameBytes)
	case !utf8.ValidString(name):
		v.add(field, strconv.Quote(name), "UTF-8")
	case strings.ContainsAny(name, ".\x00"):
		v.add(field, strconv.Quote(name), "a name without '.' and NUL")
	default:
		return true
	}
	return false
}

func (v *validator) input(field, name string) {
	if !v.name(field, name) {
		return
	}
	if name == PackedIDs || name+"." == ExpectPrefix {
		v.add(field, strconv.Quote(name), "a name that is not reserved (%q, %q)", PackedIDs, strings.TrimSuffix(ExpectPrefix, "."))
		return
	}
	if other, dup := v.inputs[name]; dup {
		v.add(field, strconv.Quote(name), "a name other than that of %s", other)
		return
	}
	v.inputs[name] = strings.TrimSuffix(field, ".name")
}

func (v *validator) identity() {
	if v.m.FormatVersion != FormatVersion {
		v.add("format_version", v.m.FormatVersion, "%d", FormatVersion)
	}
	if n := v.m.Name; n == "" || len(n) > maxNameBytes || !utf8.ValidString(n) || strings.ContainsAny(n, "/\x00") {
		v.add("name", strconv.Quote(n), "1 to %d bytes of UTF-8 without '/' and NUL", maxNameBytes)
	}
	if n, err := strconv.ParseInt(v.m.Version, 10, 64); err != nil || n < 0 || strconv.FormatInt(n, 10) != v.m.Version {
		v.add("version", strconv.Quote(v.m.Version), "a decimal number in [0, 2^63) without sign and leading zeros")
	}
}

func (v *validator) tables() {
	v.between("tables: count", int64(len(v.m.Tables)), 1, maxTables)
	for i := range v.m.Tables {
		t := &v.m.Tables[i]
		field := fmt.Sprintf("tables[%d]", i)
		v.input(field+".name", t.Name)
		dimOK := v.between(field+".dim", int64(t.Dim), 1, maxDim)
		if t.Rows < 1 {
			v.add(field+".rows", t.Rows, "at least 1")
		} else if dimOK {
			// 16: the segment may hold rows padded to a cache line, and a dim of 1 is the worst case.
			if most := int64(math.MaxInt64) / int64(t.Dim) / 4 / 16; t.Rows > most {
				v.add(field+".rows", t.Rows, "at most %d for a dim of %d", most, t.Dim)
			}
		}
		v.between(field+".hotness", int64(t.Hotness), 0, maxHotness)
		v.oneOf(field+".combiner", t.Combiner, Combiners())
		v.oneOf(field+".id_policy", t.IDPolicy, IDPolicies())
		if !slices.Contains(RowDTypes(), t.RowDType) {
			v.add(field+".row_dtype", t.RowDType, "one of %v", RowDTypes())
		}
		v.file(field+".file", t.File)
		if t.Tensor == "" || t.Tensor == metadataKey || !utf8.ValidString(t.Tensor) {
			v.add(field+".tensor", strconv.Quote(t.Tensor), "the name of a tensor")
		}
	}
}

func (v *validator) dense() {
	v.between("dense: count", int64(len(v.m.Dense)), 0, maxTables)
	for i := range v.m.Dense {
		d := &v.m.Dense[i]
		field := fmt.Sprintf("dense[%d]", i)
		v.input(field+".name", d.Name)
		v.between(field+".width", int64(d.Width), 1, maxDim)
		v.float32(field+".dtype", d.DType)
	}
}

func (v *validator) float32(field string, d dtype.DType) {
	if d != dtype.Float32 {
		v.add(field, d, "float32")
	}
}

func (v *validator) outputs() {
	outs := v.m.Outputs
	v.between("outputs: count", int64(len(outs)), 1, maxTables)
	names := map[string]int{}
	order := make([]int, 0, len(outs))
	for i := range outs {
		field := fmt.Sprintf("outputs[%d]", i)
		if v.name(field+".name", outs[i].Name) {
			if other, dup := names[outs[i].Name]; dup {
				v.add(field+".name", strconv.Quote(outs[i].Name), "a name other than that of outputs[%d]", other)
			}
			names[outs[i].Name] = i
		}
		if v.between(field+".width", int64(outs[i].Width), 0, maxDim) {
			order = append(order, i)
		}
	}
	if len(order) != len(outs) {
		return // columns cannot be counted
	}
	slices.SortStableFunc(order, func(a, b int) int { return outs[a].Column - outs[b].Column })
	at := 0
	for _, i := range order {
		if outs[i].Column != at {
			v.add(fmt.Sprintf("outputs[%d].column", i), outs[i].Column, "%d (columns in one run from 0, without gaps and overlaps)", at)
			return // what follows is shifted by the same mistake
		}
		at += outs[i].Columns()
	}
	if at > maxDim {
		v.add("outputs: columns", at, "at most %d", maxDim)
	}
}

func (v *validator) buckets() {
	m := v.m
	v.between("max_batch", int64(m.MaxBatch), 1, maxBatchLimit)
	if len(m.Buckets) == 0 {
		v.add("buckets", "none", "at least one, the last equal to max_batch")
		return
	}
	last := 0
	for i, b := range m.Buckets {
		if b <= last {
			v.add(fmt.Sprintf("buckets[%d]", i), b, "more than %d (positive and ascending)", last)
		}
		last = b
	}
	if last != m.MaxBatch {
		v.add(fmt.Sprintf("buckets[%d]", len(m.Buckets)-1), last, "max_batch (%d)", m.MaxBatch)
	}
}
