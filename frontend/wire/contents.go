package wire

import (
	"encoding/binary"
	"math"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"rankd/internal/dtype"
)

// contentsFields are the fields of InferTensorContents: name, and the wire type of an element that is not packed.
var contentsFields = [...]struct {
	name string
	typ  protowire.Type
}{
	1: {"bool_contents", protowire.VarintType},
	2: {"int_contents", protowire.VarintType},
	3: {"int64_contents", protowire.VarintType},
	4: {"uint_contents", protowire.VarintType},
	5: {"uint64_contents", protowire.VarintType},
	6: {"fp32_contents", protowire.Fixed32Type},
	7: {"fp64_contents", protowire.Fixed64Type},
	8: {"bytes_contents", protowire.BytesType},
}

// contentsField is the field that holds the elements of a type; 0 for those that can only come raw.
var contentsField = [...]protowire.Number{
	dtype.Bool: 1, dtype.Int8: 2, dtype.Int16: 2, dtype.Int32: 2, dtype.Int64: 3,
	dtype.Uint8: 4, dtype.Uint16: 4, dtype.Uint32: 4, dtype.Uint64: 5,
	dtype.Float16: 0, dtype.BFloat16: 0, dtype.Float32: 6, dtype.Float64: 7,
}

// typed is what a first pass over an input's contents has found.
type typed struct {
	count int64  // elements in the field that belongs to the datatype
	bulk  []byte // all of them, where they are one packed run of fixed-width elements
	runs  int    // pieces that hold them
}

// convertContents makes I1 true of t, an input of a request without raw blobs: its typed elements, which may come in any
// number of pieces, become raw ones. They are counted and compared with the shape before memory is taken (I2). A single
// packed run of floats already is raw and is aliased.
func (r *Request) convertContents(t *Tensor, body []byte) error {
	want, err := r.elements(t)
	if err != nil {
		return err
	}
	found, err := r.countContents(t, body)
	if err != nil {
		return err
	}
	field := contentsField[t.DType]
	if found.count != want {
		if field == 0 {
			return Errorf(ReasonContents, "decode input %s: got no data, want raw_input_contents, the only form of %s", Quote(t.Name), r.DTypeName(t.DType))
		}
		return Errorf(ReasonSize, "decode input %s: got %d elements in %s and no raw_input_contents, want %d for %s %s", Quote(t.Name),
			found.count, contentsFields[field].name, want, r.DTypeName(t.DType), ShapeString(t.Shape))
	}
	if found.runs == 1 && found.bulk != nil {
		t.Data = found.bulk
		return nil
	}
	if want == 0 {
		return nil
	}
	size := int(want) * t.DType.Size()
	r.arena = slices.Grow(r.arena, size)
	start := len(r.arena)
	if err := r.copyContents(t, body, field); err != nil {
		return err
	}
	t.Data = r.arena[start:len(r.arena):len(r.arena)]
	return nil
}

// countContents is the first pass. It refuses elements in a field that does not belong to t's datatype.
func (r *Request) countContents(t *Tensor, body []byte) (typed, error) {
	var found typed
	field := contentsField[t.DType]
	outer := walk("ModelInferRequest.inputs", body)
	for outer.next() {
		if outer.num != 5 {
			continue
		}
		f := walk("InferTensorContents", outer.bytes)
		for f.next() {
			if f.num >= protowire.Number(len(contentsFields)) {
				continue
			}
			n, err := f.elements(contentsFields[f.num].name, contentsFields[f.num].typ)
			if err != nil {
				return found, err
			}
			if n == 0 {
				continue
			}
			if f.num != field {
				return found, r.wrongContents(t, contentsFields[f.num].name)
			}
			found.count += n
			found.runs++
			if f.typ == protowire.BytesType && contentsFields[field].typ != protowire.VarintType {
				found.bulk = f.bytes
			}
		}
		if f.err != nil {
			return found, f.err
		}
	}
	return found, outer.err
}

func (r *Request) wrongContents(t *Tensor, got string) error {
	want := "raw_input_contents"
	if field := contentsField[t.DType]; field != 0 {
		want = contentsFields[field].name
	}
	return Errorf(ReasonContents, "decode input %s: got elements in %s, want them in %s for datatype %s", Quote(t.Name), got, want, r.DTypeName(t.DType))
}

// elements is the number of elements in the current occurrence of a repeated field, packed or not.
func (f *fields) elements(name string, typ protowire.Type) (int64, error) {
	if f.typ == typ { // not packed
		return 1, nil
	}
	if f.typ != protowire.BytesType {
		return 0, f.wrongType(name, protowire.BytesType)
	}
	switch typ {
	case protowire.Fixed32Type, protowire.Fixed64Type:
		size := 4
		if typ == protowire.Fixed64Type {
			size = 8
		}
		if len(f.bytes)%size != 0 {
			return 0, Errorf(ReasonProtobuf, "decode %s: packed %s has %d bytes, want a multiple of %d", f.message, name, len(f.bytes), size)
		}
		return int64(len(f.bytes) / size), nil
	}
	n := int64(0)
	for _, c := range f.bytes { // a varint ends with the only one of its bytes that is below 0x80
		if c < 0x80 {
			n++
		}
	}
	if last := len(f.bytes) - 1; last >= 0 && f.bytes[last] >= 0x80 {
		return 0, Errorf(ReasonProtobuf, "decode %s: packed %s ends within a number", f.message, name)
	}
	return n, nil
}

// copyContents is the second pass: it appends the elements to the arena, which has room for them.
func (r *Request) copyContents(t *Tensor, body []byte, field protowire.Number) error {
	outer := walk("ModelInferRequest.inputs", body)
	for outer.next() {
		if outer.num != 5 {
			continue
		}
		f := walk("InferTensorContents", outer.bytes)
		for f.next() {
			if f.num != field {
				continue
			}
			if err := r.copyRun(t, &f); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *Request) copyRun(t *Tensor, f *fields) error {
	name := contentsFields[f.num].name
	if f.typ != protowire.BytesType {
		return r.appendElement(t, f.scalar, name)
	}
	if contentsFields[f.num].typ != protowire.VarintType {
		r.arena = append(r.arena, f.bytes...)
		return nil
	}
	for b := f.bytes; len(b) > 0; {
		v, n := protowire.ConsumeVarint(b)
		if n < 0 {
			return Errorf(ReasonProtobuf, "decode %s: packed %s: %v", f.message, name, protowire.ParseError(n))
		}
		if err := r.appendElement(t, v, name); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// appendElement writes one element of t's type. Varints are cut to the width of their protobuf type, as the generated code does, and
// then have to fit into the element type.
func (r *Request) appendElement(t *Tensor, v uint64, name string) error {
	fits := true
	switch t.DType {
	case dtype.Bool:
		r.arena = append(r.arena, byte(protowire.EncodeBool(v != 0)))
	case dtype.Int8:
		fits = int32(v) == int32(int8(v))
		r.arena = append(r.arena, byte(v))
	case dtype.Int16:
		fits = int32(v) == int32(int16(v))
		r.arena = binary.LittleEndian.AppendUint16(r.arena, uint16(v))
	case dtype.Uint8:
		fits = uint32(v) <= math.MaxUint8
		r.arena = append(r.arena, byte(v))
	case dtype.Uint16:
		fits = uint32(v) <= math.MaxUint16
		r.arena = binary.LittleEndian.AppendUint16(r.arena, uint16(v))
	case dtype.Int32, dtype.Uint32, dtype.Float32:
		r.arena = binary.LittleEndian.AppendUint32(r.arena, uint32(v))
	default: // int64, uint64, float64
		r.arena = binary.LittleEndian.AppendUint64(r.arena, v)
	}
	if !fits {
		return Errorf(ReasonValue, "decode input %s: got %d in %s, want a value that fits %s", Quote(t.Name), int32(v), name, r.DTypeName(t.DType))
	}
	return nil
}
