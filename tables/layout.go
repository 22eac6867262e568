package tables

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"math"
	"strings"

	"rankd/internal/dtype"
	"rankd/model"
)

// layout is where everything lies in a segment. It follows from the manifest alone, but for fileBytes.
type layout struct {
	digest     [32]byte
	fileBytes  int64 // at least used(); whole pages
	zeroOffset int64
	dataOffset int64
	tables     []tableLayout
}

type tableLayout struct {
	name   string
	offset int64
	rows   int64
	stride int
	dim    int
	dtype  dtype.DType
}

func (t tableLayout) bytes() int64 { return t.rows * int64(t.stride) }

func align(n int64) int64 { return (n + line - 1) &^ (line - 1) }

// strideOf is the distance from a row to the next. Rows begin with a line; those of int8 at a multiple of 8, so that a row of
// 128 takes 136 bytes and not 192, and still lies in three lines.
func strideOf(d dtype.DType, dim int) int64 {
	bytes := int64(model.RowBytes(d, dim))
	if d == dtype.Int8 {
		return (bytes + 7) &^ 7
	}
	return align(bytes)
}

// layoutOf computes the layout for a validated manifest. fileBytes is left 0.
func layoutOf(m *model.Manifest) (layout, error) {
	var l layout
	digest := m.TablesDigest()
	if n, err := hex.Decode(l.digest[:], []byte(digest)); err != nil || n != len(l.digest) {
		return layout{}, fmt.Errorf("lay out tables: digest: got %q, want %d hex digits", digest, 2*len(l.digest))
	}
	names, longest := int64(0), int64(0)
	for _, t := range m.Tables {
		if _, known := formOf[t.RowDType]; !known {
			return layout{}, fmt.Errorf("lay out table %q: row dtype: got %v, want one of %v", t.Name, t.RowDType, model.RowDTypes())
		}
		stride := strideOf(t.RowDType, t.Dim)
		names += int64(len(t.Name))
		longest = max(longest, align(stride))
		l.tables = append(l.tables, tableLayout{
			name: t.Name, rows: t.Rows, stride: int(stride), dim: t.Dim, dtype: t.RowDType,
		})
	}
	l.zeroOffset = align(l.namesOffset() + names)
	l.dataOffset = l.zeroOffset + longest
	end := l.dataOffset
	for i := range l.tables {
		t := &l.tables[i]
		if t.rows < 1 || t.dim < 1 || t.rows > (math.MaxInt64-end)/int64(t.stride) {
			return layout{}, fmt.Errorf("lay out table %q: %d rows of %d do not fit", t.name, t.rows, t.dim)
		}
		t.offset = end
		end += align(t.bytes())
	}
	return l, nil
}

func (l *layout) namesOffset() int64 { return headerBytes + int64(len(l.tables))*descriptorBytes }

// used is the number of bytes that a segment needs: a line beyond the last row, since kernels read whole lines of sums.
func (l *layout) used() int64 {
	if len(l.tables) == 0 {
		return l.dataOffset
	}
	last := l.tables[len(l.tables)-1]
	return last.offset + align(last.bytes()) + line
}

// dataBytes is the size of the tables alone, padding included.
func (l *layout) dataBytes() int64 {
	n := int64(0)
	for _, t := range l.tables {
		n += t.bytes()
	}
	return n
}

var (
	le         = binary.LittleEndian
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
)

// encode gives the bytes from the start of the segment to the end of the names, with the magic still 0.
func (l *layout) encode() []byte {
	var names strings.Builder
	b := make([]byte, l.namesOffset())
	le.PutUint32(b[offVersion:], version)
	le.PutUint64(b[offFileBytes:], uint64(l.fileBytes))
	le.PutUint64(b[offZeroOffset:], uint64(l.zeroOffset))
	le.PutUint64(b[offDataOffset:], uint64(l.dataOffset))
	le.PutUint32(b[offTableCount:], uint32(len(l.tables)))
	copy(b[offDigest:], l.digest[:])
	for i, t := range l.tables {
		d := b[headerBytes+int64(i)*descriptorBytes:]
		le.PutUint64(d[offTableOffset:], uint64(t.offset))
		le.PutUint64(d[offRows:], uint64(t.rows))
		le.PutUint32(d[offStride:], uint32(t.stride))
		le.PutUint32(d[offDim:], uint32(t.dim))
		le.PutUint32(d[offDType:], uint32(t.dtype))
		le.PutUint32(d[offNameBytes:], uint32(len(t.name)))
		names.WriteString(t.name)
	}
	le.PutUint32(b[offNamesBytes:], uint32(names.Len()))
	b = append(b, names.String()...)
	le.PutUint32(b[offChecksum:], crc32.Checksum(b[offVersion:], castagnoli))
	return b
}

// decode reads the header of a segment whose file has fileBytes bytes, all of them in mem or only the first ones. It
// trusts nothing and returns a layout whose every offset lies inside the file.
func decode(mem []byte, fileBytes int64) (layout, error) {
	if fileBytes < headerBytes || int64(len(mem)) < headerBytes {
		return layout{}, fmt.Errorf("%w: got %d bytes, want at least %d", ErrSize, fileBytes, headerBytes)
	}
	if !isReady(mem) {
		return layout{}, ErrNotReady
	}
	h := mem[:headerBytes]
	if got := le.Uint32(h[offVersion:]); got != version {
		return layout{}, fmt.Errorf("%w: got %d, want %d", ErrVersion, got, version)
	}
	count, names := int64(le.Uint32(h[offTableCount:])), int64(le.Uint32(h[offNamesBytes:]))
	namesOffset := headerBytes + count*descriptorBytes
	if namesOffset+names > int64(len(mem)) {
		return layout{}, fmt.Errorf("%w: header of %d tables is longer than the file", ErrGeometry, count)
	}
	b := append([]byte(nil), mem[:namesOffset+names]...) // what is checked is what is used
	if got, want := crc32.Checksum(b[offVersion:], castagnoli), le.Uint32(b[offChecksum:]); got != want {
		return layout{}, fmt.Errorf("%w: checksum got %#08x, want %#08x", ErrChecksum, got, want)
	}
	l := layout{
		fileBytes:  int64(le.Uint64(b[offFileBytes:])),
		zeroOffset: int64(le.Uint64(b[offZeroOffset:])),
		dataOffset: int64(le.Uint64(b[offDataOffset:])),
		tables:     make([]tableLayout, count),
	}
	copy(l.digest[:], b[offDigest:])
	if l.fileBytes != fileBytes {
		return layout{}, fmt.Errorf("%w: got %d bytes, want %d", ErrSize, fileBytes, l.fileBytes)
	}
	return l, l.decodeTables(b[headerBytes:namesOffset], b[namesOffset:])
}

func (l *layout) decodeTables(descriptors, names []byte) error {
	longest := int64(0)
	for i := range l.tables {
		d := descriptors[int64(i)*descriptorBytes:]
		nameBytes := int64(le.Uint32(d[offNameBytes:]))
		if nameBytes > int64(len(names)) {
			return fmt.Errorf("%w: table %d: name of %d bytes", ErrGeometry, i, nameBytes)
		}
		t := tableLayout{
			name:   string(names[:nameBytes]),
			offset: int64(le.Uint64(d[offTableOffset:])), rows: int64(le.Uint64(d[offRows:])),
			stride: int(le.Uint32(d[offStride:])), dim: int(le.Uint32(d[offDim:])),
			dtype: dtype.DType(le.Uint32(d[offDType:])),
		}
		names = names[nameBytes:]
		_, known := formOf[t.dtype]
		if !known || t.dim < 1 || int64(t.stride) != strideOf(t.dtype, t.dim) || t.offset < l.dataOffset || t.offset > l.fileBytes-line ||
			t.offset%line != 0 || t.rows < 1 || t.rows > (l.fileBytes-line-t.offset)/int64(t.stride) {
			return fmt.Errorf("%w: table %q: got offset %d, %d rows, stride %d, dim %d", ErrGeometry, t.name, t.offset, t.rows, t.stride, t.dim)
		}
		longest = max(longest, int64(t.stride))
		l.tables[i] = t
	}
	if l.zeroOffset < headerBytes || l.zeroOffset%line != 0 || l.zeroOffset > l.dataOffset || l.dataOffset-l.zeroOffset < longest {
		return fmt.Errorf("%w: zero row: got offset %d before %d", ErrGeometry, l.zeroOffset, l.dataOffset)
	}
	return nil
}

// matches reports how the layout of an opened segment differs from the one that a manifest asks for.
func (l *layout) matches(want layout) error {
	if l.digest != want.digest {
		return fmt.Errorf("%w: digest got %x, want %x", ErrContent, l.digest, want.digest)
	}
	if l.zeroOffset != want.zeroOffset || l.dataOffset != want.dataOffset || len(l.tables) != len(want.tables) {
		return fmt.Errorf("%w: got %d tables from %d, want %d from %d", ErrGeometry, len(l.tables), l.dataOffset, len(want.tables), want.dataOffset)
	}
	for i := range l.tables {
		if l.tables[i] != want.tables[i] {
			return fmt.Errorf("%w: table %d: got %+v, want %+v", ErrGeometry, i, l.tables[i], want.tables[i])
		}
	}
	return nil
}
