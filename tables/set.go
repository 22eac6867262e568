package tables

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"rankd/internal/dtype"
	"rankd/internal/hugemem"
	"rankd/model"
)

// Set is an attached segment: its tables, read-only, ready for lookups.
type Set struct {
	mapping *hugemem.Mapping
	mem     []byte // the mapping's bytes
	layout  layout
	pages   hugemem.Coverage
	kernel  kernel
	tables  []table
	strides []int  // bytes a packed row, per packed array
	wide    int    // bytes of all sums of a row that are rounded to bfloat16
	zero    uint64 // address of the zero row
}

// table is what a lookup needs to know about one table.
type table struct {
	name     string
	base     uint64 // address of row 0
	rows     uint64
	stride   uint64
	policy   policy
	combiner combiner
	col      column
}

type (
	policy   uint8
	combiner uint8
)

const (
	reject policy = iota
	clamp
	zeroRow
	hashMod
)

const (
	sum combiner = iota
	mean
	sqrtN
)

var (
	policies  = map[string]policy{model.PolicyReject: reject, model.PolicyClamp: clamp, model.PolicyZero: zeroRow, model.PolicyHashMod: hashMod}
	combiners = map[string]combiner{model.CombinerSum: sum, model.CombinerMean: mean, model.CombinerSqrtN: sqrtN}
)

// Attach maps the segment behind an open descriptor, which stays the caller's, and checks all of it but the rows: size,
// magic, version, checksum, digest and geometry against the manifest, with a sentinel each. Every page is mapped before it
// returns. The manifest must be valid; policies, combiners, slots and strides come from it. Close ends the mapping.
func Attach(fd int, m *model.Manifest) (*Set, error) {
	want, err := layoutOf(m)
	if err != nil {
		return nil, err
	}
	mapping, got, err := mapSegment(fd)
	if err != nil {
		return nil, fmt.Errorf("attach tables: %w", err)
	}
	s := &Set{mapping: mapping, mem: mapping.Bytes, layout: got, kernel: bestKernel(), zero: uint64(got.zeroOffset)}
	err = got.matches(want)
	if err == nil {
		err = s.bind(m)
	}
	if err == nil {
		err = mapping.Populate(context.Background())
	}
	if err != nil {
		return nil, fmt.Errorf("attach tables: %w", errors.Join(err, mapping.Unmap()))
	}
	s.pages, _ = mapping.Coverage() // where smaps cannot be read the pages are unknown, and as good as they are
	return s, nil
}

// AttachPath is Attach for a file name.
func AttachPath(path string, m *model.Manifest) (*Set, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("attach tables: %w", err)
	}
	defer f.Close()
	return Attach(int(f.Fd()), m)
}

// mapSegment maps a complete segment read-only and decodes its header. The size is the file's, never the header's.
func mapSegment(fd int) (*hugemem.Mapping, layout, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, layout{}, fmt.Errorf("stat segment: %w", err)
	}
	if st.Size < headerBytes {
		return nil, layout{}, fmt.Errorf("%w: got %d bytes, want at least %d", ErrSize, st.Size, headerBytes)
	}
	mapping, err := hugemem.Map(fd, st.Size, false)
	if err != nil {
		return nil, layout{}, err
	}
	l, err := decode(mapping.Bytes, st.Size)
	if err != nil {
		return nil, layout{}, errors.Join(err, mapping.Unmap())
	}
	return mapping, l, nil
}

// bind takes from the manifest what the segment does not say.
func (s *Set) bind(m *model.Manifest) error {
	for _, p := range m.Packed {
		s.strides = append(s.strides, p.Stride)
	}
	for i, t := range m.Tables {
		l := s.layout.tables[i]
		pol, known := policies[t.IDPolicy]
		com, known2 := combiners[t.Combiner]
		if !known || !known2 {
			return fmt.Errorf("%w: table %q: got policy %q and combiner %q", ErrGeometry, t.Name, t.IDPolicy, t.Combiner)
		}
		a, o := t.Slot.Array, t.Slot.Offset
		c := column{array: a, offset: o, dim: t.Dim, form: formOf[t.RowDType]}
		if a < 0 || a >= len(s.strides) {
			return fmt.Errorf("%w: table %q: got packed array %d, want below %d", ErrGeometry, t.Name, a, len(s.strides))
		}
		switch d := m.Packed[a].DType; d {
		case dtype.Float32:
		case dtype.BFloat16:
			c.half = true
			s.wide += 4 * t.Dim
		default:
			return fmt.Errorf("%w: table %q: got a packed array of %s, want float32 or bfloat16", ErrGeometry, t.Name, d)
		}
		if o < 0 || o > s.strides[a] || c.bytes() > s.strides[a]-o {
			return fmt.Errorf("%w: table %q: slot %+v does not hold %d elements", ErrGeometry, t.Name, t.Slot, t.Dim)
		}
		s.tables = append(s.tables, table{
			name: t.Name, base: uint64(l.offset), rows: uint64(l.rows), stride: uint64(l.stride),
			policy: pol, combiner: com, col: c,
		})
		s.tables[i].outside(uint64(l.rows), s.zero) // a policy without a rule panics here and not in a request
	}
	return nil
}

// Close unmaps the tables. No lookup may run then or later.
func (s *Set) Close() error {
	s.mem, s.tables = nil, nil
	return s.mapping.Unmap()
}

// UseKernel makes Sweep use the kernel of that name, one of KernelNames.
func (s *Set) UseKernel(name string) error {
	for _, k := range kernels() {
		if k.name == name {
			s.kernel = k
			return nil
		}
	}
	return fmt.Errorf("use lookup kernel: got %q, want one of %s", name, strings.Join(KernelNames(), ", "))
}

// Kernel names the kernel that Sweep uses.
func (s *Set) Kernel() string { return s.kernel.name }

// Pages is what the tables lay on when they were attached, in this process.
func (s *Set) Pages() hugemem.Coverage { return s.pages }

// Info describes the attached segment.
func (s *Set) Info() Info { return describe(&s.layout, s.pages) }
