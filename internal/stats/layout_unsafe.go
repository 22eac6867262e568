package stats

import (
	"structs"
	"sync/atomic"
	"unsafe"
)

const (
	line = 128 // two 64-byte lines: adjacent-line prefetch

	pageMagic   = 0x31737461_74736b72 // "rkstats1"
	pageVersion = 2

	counterSlots   = 160
	gaugeSlots     = 16
	histogramSlots = 8
	sizeSlots      = 160 // buckets of a histogram
)

// MaxFrontends and MaxBuckets bound the page.
const (
	MaxFrontends = 64
	MaxBuckets   = 32

	blockCount = MaxFrontends + 2
)

type header struct {
	_ structs.HostLayout

	magic      atomic.Uint64 // stored last; non-zero means that every field below is final
	version    uint32
	blockBytes uint32
	blockCount uint32
	_          [line - 20]byte
}

type histogram struct {
	_ structs.HostLayout

	sum     atomic.Uint64
	_       [line - 8]byte
	buckets [sizeSlots]atomic.Uint64
}

// Block is the words of one writer process. Its methods are safe for concurrent use.
type Block struct {
	_ structs.HostLayout

	counters      [counterSlots]atomic.Uint64
	gauges        [gaugeSlots]atomic.Int64
	bucketRows    [MaxBuckets]atomic.Uint32
	bucketSources [MaxBuckets]atomic.Uint32
	launches      [MaxBuckets]atomic.Uint64
	histograms    [histogramSlots]histogram
}

type layout struct {
	_ structs.HostLayout

	header header
	blocks [blockCount]Block
}

const (
	pageBytes  = int(unsafe.Sizeof(layout{}))
	blockBytes = uint32(unsafe.Sizeof(Block{}))
)

// Compile-time layout checks: each index must be exactly zero.
var (
	_ = [1]struct{}{}[unsafe.Sizeof(header{})-line]
	_ = [1]struct{}{}[unsafe.Offsetof(Block{}.gauges)-0x500]
	_ = [1]struct{}{}[unsafe.Offsetof(Block{}.bucketRows)-0x580]
	_ = [1]struct{}{}[unsafe.Offsetof(Block{}.bucketSources)-0x600]
	_ = [1]struct{}{}[unsafe.Offsetof(Block{}.launches)-0x680]
	_ = [1]struct{}{}[unsafe.Offsetof(Block{}.histograms)-0x780]
	_ = [1]struct{}{}[unsafe.Sizeof(histogram{})-0x580]
	_ = [1]struct{}{}[unsafe.Sizeof(Block{})-0x3380]
	_ = [1]struct{}{}[unsafe.Sizeof(Block{})%line]
	_ = [1]struct{}{}[unsafe.Offsetof(layout{}.blocks)-line]
)

// overlay sees mem as the page's layout. The result aliases mem and is valid as long as mem is mapped.
//
// Preconditions:
//   - len(mem) is at least pageBytes and mem is aligned to 8 bytes.
func overlay(mem []byte) *layout {
	return (*layout)(unsafe.Pointer(&mem[0]))
}
