package wire

import (
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// fields walks the fields of one message in place. After next has returned true, num and typ say which field it is and
// bytes (length-delimited) or scalar (varint, fixed32, fixed64) holds its value. After false, err says whether the message
// ended well.
type fields struct {
	message string // its name, for messages
	b       []byte // what is left
	size    int    // length of the whole message

	num    protowire.Number
	typ    protowire.Type
	bytes  []byte
	scalar uint64
	err    error
}

func walk(message string, b []byte) fields { return fields{message: message, b: b, size: len(b)} }

// next steps to the next field. Nearly all fields of a request have a tag of one byte and a length or value of one byte.
func (f *fields) next() bool {
	if len(f.b) >= 2 {
		tag, v := f.b[0], f.b[1]
		if tag|v < 0x80 && tag >= 1<<3 {
			switch end := 2 + int(v); {
			case tag&7 == byte(protowire.VarintType):
				f.num, f.typ, f.scalar = protowire.Number(tag>>3), protowire.VarintType, uint64(v)
				f.b = f.b[2:]
				return true
			case tag&7 == byte(protowire.BytesType) && end <= len(f.b):
				f.num, f.typ, f.bytes = protowire.Number(tag>>3), protowire.BytesType, f.b[2:end]
				f.b = f.b[end:]
				return true
			}
		}
	}
	return len(f.b) > 0 && f.nextOfAnySize()
}

func (f *fields) nextOfAnySize() bool {
	num, typ, n := protowire.ConsumeTag(f.b)
	if n < 0 {
		return f.fail(protowire.ParseError(n).Error())
	}
	if num > protowire.MaxValidNumber { // ConsumeTag checks only that it fits an int32
		return f.fail("it holds a field with an invalid number")
	}
	f.num, f.typ = num, typ
	rest := f.b[n:]
	switch typ {
	case protowire.BytesType:
		f.bytes, n = protowire.ConsumeBytes(rest)
	case protowire.VarintType:
		f.scalar, n = protowire.ConsumeVarint(rest)
	case protowire.Fixed32Type:
		var v uint32
		v, n = protowire.ConsumeFixed32(rest)
		f.scalar = uint64(v)
	case protowire.Fixed64Type:
		f.scalar, n = protowire.ConsumeFixed64(rest)
	case protowire.StartGroupType, protowire.EndGroupType:
		return f.fail("it holds a group")
	default:
		return f.fail("it holds a field of an unknown wire type")
	}
	if n < 0 {
		return f.fail(protowire.ParseError(n).Error())
	}
	f.b = rest[n:]
	return true
}

// fail ends the walk at the field that begins with what is left.
func (f *fields) fail(why string) bool {
	f.err = Errorf(ReasonProtobuf, "decode %s: byte %d of %d: %s", f.message, f.size-len(f.b), f.size, why)
	return false
}

// sub checks that the field is length-delimited, and hands out its bytes.
func (f *fields) sub(name string) ([]byte, error) {
	if f.typ != protowire.BytesType {
		return nil, f.wrongType(name, protowire.BytesType)
	}
	return f.bytes, nil
}

// text is sub for a string field: valid UTF-8 of at most limit bytes.
func (f *fields) text(name string, limit int) ([]byte, error) {
	b, err := f.sub(name)
	if err != nil {
		return nil, err
	}
	if len(b) > limit {
		return nil, Errorf(ReasonName, "decode %s: %s %s is %d bytes long, want at most %d", f.message, name, Quote(b), len(b), limit)
	}
	if !utf8.Valid(b) {
		return nil, Errorf(ReasonProtobuf, "decode %s: %s %s is not valid UTF-8", f.message, name, Quote(b))
	}
	return b, nil
}

// wrongType refuses a known field of another wire type than its own.
func (f *fields) wrongType(name string, want protowire.Type) error {
	return Errorf(ReasonProtobuf, "decode %s: field %s has wire type %s, want %s", f.message, name, wireTypeName(f.typ), wireTypeName(want))
}

func wireTypeName(t protowire.Type) string {
	switch t {
	case protowire.VarintType:
		return "varint"
	case protowire.Fixed32Type:
		return "fixed32"
	case protowire.Fixed64Type:
		return "fixed64"
	case protowire.BytesType:
		return "bytes"
	}
	return "group"
}
