package wire

import (
	"math"
	"math/bits"

	"google.golang.org/protobuf/encoding/protowire"

	"rankd/internal/dtype"
)

// appendDims adds the dimensions of a "repeated int64 shape" field, packed or not, to the shape that began at r.shapes[from].
func (r *Request) appendDims(f *fields, from int) error {
	switch f.typ {
	case protowire.VarintType:
		return r.appendDim(int64(f.scalar), from)
	case protowire.BytesType:
		for b := f.bytes; len(b) > 0; {
			v, n := protowire.ConsumeVarint(b)
			if n < 0 {
				return Errorf(ReasonProtobuf, "decode %s: shape: %v", f.message, protowire.ParseError(n))
			}
			if err := r.appendDim(int64(v), from); err != nil {
				return err
			}
			b = b[n:]
		}
		return nil
	}
	return f.wrongType("shape", protowire.BytesType)
}

func (r *Request) appendDim(d int64, from int) error {
	if len(r.shapes)-from == MaxRank {
		return Errorf(ReasonShape, "decode request: shape %s... has more than %d dimensions, want at most %d",
			ShapeString(r.shapes[from:]), MaxRank, MaxRank)
	}
	r.shapes = append(r.shapes, d)
	return nil
}

// elements is the number of elements of t, after checking that no dimension is negative and that neither the elements
// nor their bytes overflow. A dimension of 0 hides no overflow of the others.
func (r *Request) elements(t *Tensor) (int64, error) {
	total, empty := uint64(1), false
	most := uint64(math.MaxInt64 / t.DType.Size())
	for _, d := range t.Shape {
		if d < 0 {
			return 0, Errorf(ReasonShape, "decode input %s: shape %s has a negative dimension, want 0 or more", Quote(t.Name), ShapeString(t.Shape))
		}
		if d == 0 {
			empty = true
			continue
		}
		hi, lo := bits.Mul64(total, uint64(d))
		if hi != 0 || lo > most {
			return 0, Errorf(ReasonShape, "decode input %s: %s %s is larger than an address space, want at most %d bytes",
				Quote(t.Name), r.DTypeName(t.DType), ShapeString(t.Shape), int64(math.MaxInt64))
		}
		total = lo
	}
	if empty {
		return 0, nil
	}
	return int64(total), nil
}

// checkData makes I1 true of t, whose data came raw.
func (r *Request) checkData(t *Tensor) error {
	n, err := r.elements(t)
	if err != nil {
		return err
	}
	if want := n * int64(t.DType.Size()); int64(len(t.Data)) != want {
		return Errorf(ReasonSize, "decode input %s: got %d bytes of data, want %d for %s %s",
			Quote(t.Name), len(t.Data), want, r.DTypeName(t.DType), ShapeString(t.Shape))
	}
	return nil
}

// datatypes are the Open Inference Protocol's names of the element types.
var datatypes = [...]string{
	dtype.Bool: "BOOL", dtype.Int8: "INT8", dtype.Int16: "INT16", dtype.Int32: "INT32", dtype.Int64: "INT64",
	dtype.Uint8: "UINT8", dtype.Uint16: "UINT16", dtype.Uint32: "UINT32", dtype.Uint64: "UINT64",
	dtype.Float16: "FP16", dtype.BFloat16: "BF16", dtype.Float32: "FP32", dtype.Float64: "FP64",
}

// Datatype is the Open Inference Protocol's name of d ("INT64", "FP32"); empty if d is not valid.
func Datatype(d dtype.DType) string {
	if !d.Valid() {
		return ""
	}
	return datatypes[d]
}

// parseDatatype is the reverse; names are matched exactly.
func parseDatatype(name []byte) dtype.DType {
	switch string(name) {
	case "INT64":
		return dtype.Int64
	case "INT32":
		return dtype.Int32
	case "FP32":
		return dtype.Float32
	}
	for d := dtype.Bool; d.Valid(); d++ {
		if datatypes[d] == string(name) {
			return d
		}
	}
	return dtype.Invalid
}

const knownDatatypes = "BOOL, INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64, FP16, BF16, FP32, FP64"
