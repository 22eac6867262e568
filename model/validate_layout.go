package model

import (
	"fmt"
	"slices"
	"strings"

	"rankd/internal/dtype"
)

func (v *validator) packed() {
	v.between("packed: count", int64(len(v.m.Packed)), 1, 16)
	seen := map[dtype.DType]int{}
	for i, p := range v.m.Packed {
		field := fmt.Sprintf("packed[%d]", i)
		if !p.DType.Valid() {
			v.add(field+".dtype", p.DType, "an element type")
		} else if other, dup := seen[p.DType]; dup {
			v.add(field+".dtype", p.DType, "a type other than that of packed[%d]", other)
		} else {
			seen[p.DType] = i
		}
		if p.Stride < slotAlign || p.Stride > maxStride || p.Stride%slotAlign != 0 {
			v.add(field+".stride", p.Stride, "a multiple of %d from %d to %d", slotAlign, slotAlign, maxStride)
		}
	}
}

// span is the part of a packed row that one slot takes.
type span struct {
	field      string
	begin, end int
}

// slots checks that every slot lies in its row, is aligned for the copy that fills it, and shares no byte with another.
func (v *validator) slots() {
	spans := make([][]span, len(v.m.Packed))
	for i := range v.m.Tables {
		t := &v.m.Tables[i]
		field := fmt.Sprintf("tables[%d].slot", i)
		// A bad dim was reported already; its size means nothing here.
		if t.Dim >= 1 && t.Dim <= maxDim {
			v.slot(spans, field, t.Slot, t.Dim, slotAlign, PooledDTypes()...)
		}
	}
	for i := range v.m.Dense {
		d := &v.m.Dense[i]
		field := fmt.Sprintf("dense[%d].slot", i)
		if d.Width >= 1 && d.Width <= maxDim && d.DType.Valid() {
			v.slot(spans, field, d.Slot, d.Width, d.DType.Size(), d.DType)
		}
	}
	for a := range spans {
		if len(spans[a]) == 0 {
			v.add(fmt.Sprintf("packed[%d]", a), "no slot in it", "at least one (or leave the array out)")
		}
		v.overlaps(spans[a])
	}
}

// slot checks a place for a vector of so many elements in an array of one of the types. An array of another type is one
// violation; the vector is taken to have the size that the first type gives it then.
func (v *validator) slot(spans [][]span, field string, s Slot, elements, align int, types ...dtype.DType) {
	if s.Array < 0 || s.Array >= len(v.m.Packed) {
		v.add(field+".array", s.Array, "an index into packed, which has %d", len(v.m.Packed))
		return
	}
	array := v.m.Packed[s.Array]
	size := elements * types[0].Size()
	if slices.Contains(types, array.DType) {
		size = elements * array.DType.Size()
	} else {
		v.add(field+".array", fmt.Sprintf("%d (%s)", s.Array, array.DType), "an array of %s", orList(types))
	}
	if s.Offset < 0 || s.Offset > array.Stride-size {
		v.add(field+".offset", s.Offset, "0 to %d (%d bytes in a stride of %d)", array.Stride-size, size, array.Stride)
	} else if s.Offset%align != 0 {
		v.add(field+".offset", s.Offset, "a multiple of %d", align)
	}
	if s.Offset >= 0 && s.Offset <= maxStride {
		spans[s.Array] = append(spans[s.Array], span{field, s.Offset, s.Offset + size})
	}
}

// orList names types as a sentence does.
func orList(types []dtype.DType) string {
	names := make([]string, len(types))
	for i, t := range types {
		names[i] = t.String()
	}
	return strings.Join(names, " or ")
}

func (v *validator) overlaps(spans []span) {
	slices.SortStableFunc(spans, func(a, b span) int { return a.begin - b.begin })
	for i := 1; i < len(spans); i++ {
		// last is the span that reaches furthest of those before; a long one may overlap several.
		last := spans[i-1]
		if spans[i].begin < last.end {
			v.add(spans[i].field, fmt.Sprintf("bytes [%d, %d)", spans[i].begin, spans[i].end),
				"none of those of %s, [%d, %d)", last.field, last.begin, last.end)
			if last.end > spans[i].end {
				spans[i] = last
			}
		}
	}
}

func (v *validator) program() {
	p := &v.m.Program
	used := make([]int, len(v.m.Packed))
	weights := false
	for i, in := range p.Inputs {
		field := fmt.Sprintf("program.inputs[%d]", i)
		switch {
		case (in.Packed == nil) == (in.Weight == ""):
			v.add(field, "neither or both", "either weight or packed")
		case in.Packed == nil:
			weights = true
		case *in.Packed < 0 || *in.Packed >= len(used):
			v.add(field+".packed", *in.Packed, "an index into packed, which has %d", len(used))
		default:
			used[*in.Packed]++
		}
	}
	for a, n := range used {
		if n != 1 {
			v.add("program.inputs", fmt.Sprintf("packed %d %d times", a, n), "each packed array once")
		}
	}
	if weights || p.Weights != "" {
		v.file("program.weights", p.Weights)
	}
	v.programFiles()
}

func (v *validator) programFiles() {
	batches := map[int]int{}
	for i, f := range v.m.Program.Files {
		field := fmt.Sprintf("program.files[%d]", i)
		v.file(field+".file", f.File)
		if other, dup := batches[f.Batch]; dup {
			v.add(field+".batch", f.Batch, "a batch other than that of program.files[%d]", other)
			continue
		}
		batches[f.Batch] = i
		if f.Batch != 0 && !slices.Contains(v.m.Buckets, f.Batch) {
			v.add(field+".batch", f.Batch, "0 (any batch) or one of buckets %v", v.m.Buckets)
		}
	}
	if _, any := batches[0]; any {
		return
	}
	for _, b := range v.m.Buckets {
		if _, ok := batches[b]; !ok {
			v.add("program.files", fmt.Sprintf("none for bucket %d", b), "a file for it, or one with batch 0")
		}
	}
}

// digests checks the digests themselves and that every file that the manifest refers to has one (I4).
func (v *validator) digests() {
	paths := make([]string, 0, len(v.m.Digests))
	for p := range v.m.Digests {
		paths = append(paths, p)
	}
	slices.Sort(paths) // a map has no order, messages should have one
	for _, p := range paths {
		field := fmt.Sprintf("digests[%q]", p)
		if why := badPath(p); why != "" {
			v.add(field, why, "%s", wantPath)
		}
		if !validDigest(v.m.Digests[p]) {
			v.add(field, fmt.Sprintf("%q", v.m.Digests[p]), `"sha256:" and 64 lower-case hex digits`)
		}
	}
}

const wantPath = "a clean relative path with slashes, inside the bundle"

func (v *validator) file(field, p string) {
	if why := badPath(p); why != "" {
		v.add(field, why, "%s", wantPath)
		return
	}
	if _, ok := v.m.Digests[p]; !ok {
		v.add(field, fmt.Sprintf("%q without a digest", p), "an entry in digests")
	}
}

func validDigest(d string) bool {
	hexDigits, ok := strings.CutPrefix(d, digestPrefix)
	return ok && len(hexDigits) == 64 && strings.Trim(hexDigits, "0123456789abcdef") == ""
}
