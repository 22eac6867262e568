package h2wire

// Encoder writes field blocks. It adds a field to the table that both sides share only if that needs no eviction, so that the
// index of a field moves only when another one is added, and whole blocks can be kept and sent again.
//
// Rejected: golang.org/x/net's encoder, which is complete but looks every field of every request up again.
type Encoder struct {
	limit   uint32 // size of the table, as the peer was told or knows by default
	used    uint32
	entries []Field // the oldest first

	generation uint32 // changes with every index
	changed    bool   // the peer must be told of a new limit at the start of the next block
}

// Field is a header's name, in lower case, and value.
type Field struct{ Name, Value string }

const (
	tableDefault  = 4096
	fieldOverhead = 32
	staticFields  = 61
)

// NewEncoder starts with the table size that every peer has by default.
func NewEncoder() Encoder { return Encoder{limit: tableDefault} }

// static has the fields of the static table that requests and replies of gRPC begin with.
var static = map[Field]byte{
	{":method", "POST"}: 3,
	{":scheme", "http"}: 6,
	{":status", "200"}:  8,
}

// SetLimit takes the peer's table size. What is above our own default is not used.
func (e *Encoder) SetLimit(size uint32) {
	size = min(size, tableDefault)
	if size == e.limit {
		return
	}
	e.changed, e.limit = true, size
	e.entries, e.used = e.entries[:0], 0 // told to the peer as a limit of 0
	e.generation++
}

// Generation changes whenever a block that Append returned before is no longer right.
func (e *Encoder) Generation() uint32 { return e.generation }

// Append appends the fields. After a call that left Generation alone, the same fields give the same bytes again.
func (e *Encoder) Append(dst []byte, fields []Field) []byte {
	if e.changed {
		// We have dropped all entries, and the limit may have been lower in between: 0 says both.
		e.changed = false
		dst = appendInt(dst, 0x20, 5, 0)
		dst = appendInt(dst, 0x20, 5, uint64(e.limit))
		e.generation++ // the update must not be kept as a part of the block
	}
	for _, f := range fields {
		dst = e.appendField(dst, f)
	}
	return dst
}

func (e *Encoder) appendField(dst []byte, f Field) []byte {
	if i, ok := static[f]; ok {
		return append(dst, 0x80|i)
	}
	for i, have := range e.entries {
		if have == f {
			return appendInt(dst, 0x80, 7, uint64(staticFields+len(e.entries)-i))
		}
	}
	size := uint32(len(f.Name) + len(f.Value) + fieldOverhead)
	if e.used+size > e.limit {
		return AppendLiteral(dst, f)
	}
	e.used += size
	e.entries = append(e.entries, f)
	e.generation++
	return appendString(appendString(append(dst, 0x40), f.Name), f.Value)
}

// AppendLiteral appends a field that is not added to the table.
func AppendLiteral(dst []byte, f Field) []byte {
	return appendString(appendString(append(dst, 0), f.Name), f.Value)
}

// appendInt appends n in the prefix of a byte with the given number of bits, the others being those of first.
func appendInt(dst []byte, first byte, bits uint, n uint64) []byte {
	full := uint64(1)<<bits - 1
	if n < full {
		return append(dst, first|byte(n))
	}
	dst = append(dst, first|byte(full))
	for n -= full; n >= 128; n >>= 7 {
		dst = append(dst, byte(n)|0x80)
	}
	return append(dst, byte(n))
}

// appendString appends a string without Huffman coding: it is sent once a connection, or is short.
func appendString(dst []byte, s string) []byte {
	return append(appendInt(dst, 0, 7, uint64(len(s))), s...)
}
