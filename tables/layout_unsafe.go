package tables

import (
	"structs"
	"sync/atomic"
	"unsafe"
)

// version is raised by every change of the layout.
const version = 2

// magic reads "rankdTBL" in a hexdump.
const magic = 'r' | 'a'<<8 | 'n'<<16 | 'k'<<24 | 'd'<<32 | 'T'<<40 | 'B'<<48 | 'L'<<56

// line is the alignment of everything that is read in bulk: a cache line, and the width of the widest vector register.
const line = 64

// header is the start of a segment; doc.go has the table. It is written and read field by field through the offsets below,
// so that nothing of a damaged file is trusted before its checksum was.
type header struct {
	_ structs.HostLayout

	magic      atomic.Uint64
	checksum   uint32
	version    uint32
	fileBytes  uint64
	zeroOffset uint64
	dataOffset uint64
	tableCount uint32
	namesBytes uint32
	digest     [32]byte
	_          [48]byte
}

// descriptor is one table.
type descriptor struct {
	_ structs.HostLayout

	offset    uint64
	rows      uint64
	stride    uint32
	dim       uint32
	dtype     uint32
	nameBytes uint32
	_         [96]byte
}

const (
	headerBytes     = int64(unsafe.Sizeof(header{}))
	descriptorBytes = int64(unsafe.Sizeof(descriptor{}))

	offChecksum   = unsafe.Offsetof(header{}.checksum)
	offVersion    = unsafe.Offsetof(header{}.version)
	offFileBytes  = unsafe.Offsetof(header{}.fileBytes)
	offZeroOffset = unsafe.Offsetof(header{}.zeroOffset)
	offDataOffset = unsafe.Offsetof(header{}.dataOffset)
	offTableCount = unsafe.Offsetof(header{}.tableCount)
	offNamesBytes = unsafe.Offsetof(header{}.namesBytes)
	offDigest     = unsafe.Offsetof(header{}.digest)

	offTableOffset = unsafe.Offsetof(descriptor{}.offset)
	offRows        = unsafe.Offsetof(descriptor{}.rows)
	offStride      = unsafe.Offsetof(descriptor{}.stride)
	offDim         = unsafe.Offsetof(descriptor{}.dim)
	offDType       = unsafe.Offsetof(descriptor{}.dtype)
	offNameBytes   = unsafe.Offsetof(descriptor{}.nameBytes)
)

// Compile-time layout checks: each index must be exactly zero.
var (
	_ = [1]struct{}{}[unsafe.Offsetof(header{}.magic)-0x00]
	_ = [1]struct{}{}[offChecksum-0x08]
	_ = [1]struct{}{}[offVersion-0x0c]
	_ = [1]struct{}{}[offFileBytes-0x10]
	_ = [1]struct{}{}[offZeroOffset-0x18]
	_ = [1]struct{}{}[offDataOffset-0x20]
	_ = [1]struct{}{}[offTableCount-0x28]
	_ = [1]struct{}{}[offNamesBytes-0x2c]
	_ = [1]struct{}{}[offDigest-0x30]
	_ = [1]struct{}{}[unsafe.Sizeof(header{})-0x80]

	_ = [1]struct{}{}[offTableOffset-0x00]
	_ = [1]struct{}{}[offRows-0x08]
	_ = [1]struct{}{}[offStride-0x10]
	_ = [1]struct{}{}[offDim-0x14]
	_ = [1]struct{}{}[offDType-0x18]
	_ = [1]struct{}{}[offNameBytes-0x1c]
	_ = [1]struct{}{}[unsafe.Sizeof(descriptor{})-0x80]
)

// magicWord is the ready word of a mapped segment. mem begins on a page and holds at least a header.
func magicWord(mem []byte) *atomic.Uint64 {
	return &(*header)(unsafe.Pointer(&mem[:headerBytes][0])).magic
}

// isReady reports whether the loader has finished. It only loads: the mapping may be read-only.
func isReady(mem []byte) bool {
	return magicWord(mem).Load() == magic // SYNC(ready): pairs with publish; everything behind it is final
}

// publish makes the segment valid.
func publish(mem []byte) {
	magicWord(mem).Store(magic) // SYNC(ready): pairs with isReady; from here on nobody writes to the segment
}
