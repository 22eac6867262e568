package dtype

import (
	"fmt"
	"strings"
)

// DType is an element type. The zero value is Invalid.
type DType uint8

// The element types. The values are part of the segment format and of rankd.v1.
const (
	Invalid DType = iota
	Bool
	Int8
	Int16
	Int32
	Int64
	Uint8
	Uint16
	Uint32
	Uint64
	Float16
	BFloat16
	Float32
	Float64
	count
)

var infos = [count]struct {
	name string
	size int
}{
	Invalid:  {"invalid", 0},
	Bool:     {"bool", 1},
	Int8:     {"int8", 1},
	Int16:    {"int16", 2},
	Int32:    {"int32", 4},
	Int64:    {"int64", 8},
	Uint8:    {"uint8", 1},
	Uint16:   {"uint16", 2},
	Uint32:   {"uint32", 4},
	Uint64:   {"uint64", 8},
	Float16:  {"float16", 2},
	BFloat16: {"bfloat16", 2},
	Float32:  {"float32", 4},
	Float64:  {"float64", 8},
}

// String returns the name used in manifests and messages, such as "float32".
func (d DType) String() string {
	if d >= count {
		return fmt.Sprintf("dtype(%d)", uint8(d))
	}
	return infos[d].name
}

// Size returns the width of one element in bytes; 0 for Invalid and unknown values.
func (d DType) Size() int {
	if d >= count {
		return 0
	}
	return infos[d].size
}

// Valid reports whether d is one of the element types.
func (d DType) Valid() bool { return d > Invalid && d < count }

// Parse returns the DType called name. The match is exact; the error lists the known names.
func Parse(name string) (DType, error) {
	for d := Bool; d < count; d++ {
		if infos[d].name == name {
			return d, nil
		}
	}
	return Invalid, fmt.Errorf("parse dtype: got %q, want one of %s", name, names())
}

func names() string {
	all := make([]string, 0, count-1)
	for d := Bool; d < count; d++ {
		all = append(all, infos[d].name)
	}
	return strings.Join(all, ", ")
}

// MarshalText writes the name.
func (d DType) MarshalText() ([]byte, error) {
	if !d.Valid() {
		return nil, fmt.Errorf("marshal dtype: got %s, want one of %s", d, names())
	}
	return []byte(d.String()), nil
}

// UnmarshalText reads a name, as Parse does.
func (d *DType) UnmarshalText(text []byte) error {
	p, err := Parse(string(text))
	if err != nil {
		return err
	}
	*d = p
	return nil
}
