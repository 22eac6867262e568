package shmring

import (
	"structs"
	"unsafe"
)

// line is two 64-byte cache lines: adjacent-line prefetch makes pairs of them travel together.
const line = 128

const (
	magic   = 0x31676e69726b6e72 // "rnkring1", little-endian
	version = 1
)

const (
	headerBytes        = int(unsafe.Sizeof(header{}))
	frontendBlockBytes = int(unsafe.Sizeof(frontendBlock{}))
	writerBytes        = int(unsafe.Sizeof(writerLine{}))
	slabControlBytes   = int(unsafe.Sizeof(slabControl{}))
)

// header is the start of the region: geometry, then the control words grouped by who writes them.
type header struct {
	_ structs.HostLayout

	magic      word64 // SYNC(format): stored last by Format; Open believes the rest only after it
	version    uint32
	checksum   uint32 // of version and geometry
	slabs      uint32
	capacity   uint32
	chunkRows  uint32
	arrays     uint32
	strides    [MaxArrays]uint32
	scoreBytes uint32
	frontends  uint32
	writers    uint32
	_          [line - 60]byte

	owner      ownerControl
	bell       bellLine
	space      maskLine
	supervisor supervisorControl
	dead       [MaxFrontends]Word // by the supervisor: last reaped incarnation of each frontend
	recovered  [MaxFrontends]Word // by the owner: last incarnation whose traces are gone from all slabs
	kill       [MaxFrontends]Word // by the owner: incarnation that holds others up and is to be killed
}

// ownerControl is written by the owner alone.
type ownerControl struct {
	claim     word64    // claimWord, taken by CAS
	heartbeat word64    // turns of the owner's loop
	oldest    wordInt64 // CLOCK_MONOTONIC ns when the oldest launch in flight began; 0: none
	openMask  word64    // slabs that accept reservations, a bit each
	primary   Word      // the open slab to try first
	_         [line - 36]byte
}

// bellLine is the owner's doorbell: both sides write it, so it has a line of its own.
type bellLine struct {
	word Word // 0 awake, bellRows or bellAcks parked
	_    [line - 4]byte
}

type maskLine struct {
	mask word64 // frontends that wait for room
	_    [line - 8]byte
}

// supervisorControl is written by the supervisor alone.
type supervisorControl struct {
	deaths     word64 // raised after each store into dead
	ownerState Word   // OwnerState
	deadOwner  Word   // last reaped incarnation of the owner
	draining   Word   // 1: no new requests
	_          [line - 20]byte
}

// frontendBlock is written by one frontend alone. Its writer words follow it.
type frontendBlock struct {
	_           structs.HostLayout
	claim       word64    // claimWord, taken by CAS
	pendingRows wordInt64 // admitted rows not yet answered
	_           [line - 16]byte
}

// writerLine is one writer token: odd while its holder may have an uncommitted reservation.
type writerLine struct {
	word word64
	_    [64 - 8]byte
}

// slabControl is the head of a slab, grouped by writer.
type slabControl struct {
	_ structs.HostLayout

	state word64 // stateWord: frontends reserve by CAS, the owner closes and opens
	_     [line - 8]byte

	committed word64 // countWord: frontends add, the owner resets at open
	_         [line - 8]byte

	pending word64 // a bit a frontend: set by it before it gathers, cleared when it has its scores
	_       [line - 8]byte

	done     word64 // epoch of the last life whose scores are final
	recycled word64 // epoch of the last life that is over
	status   word64 // countWord: Status of the whole slab
	attempts word64 // countWord: executions begun
	cursor   word64 // cursorWord
	_        [line - 40]byte
}

// Compile-time layout checks: each index must be exactly zero.
var (
	_ = [1]struct{}{}[unsafe.Offsetof(header{}.owner)-1*line]
	_ = [1]struct{}{}[unsafe.Offsetof(header{}.bell)-2*line]
	_ = [1]struct{}{}[unsafe.Offsetof(header{}.space)-3*line]
	_ = [1]struct{}{}[unsafe.Offsetof(header{}.supervisor)-4*line]
	_ = [1]struct{}{}[unsafe.Offsetof(header{}.dead)-5*line]
	_ = [1]struct{}{}[unsafe.Offsetof(header{}.recovered)-7*line]
	_ = [1]struct{}{}[unsafe.Offsetof(header{}.kill)-9*line]
	_ = [1]struct{}{}[unsafe.Sizeof(header{})-11*line]
	_ = [1]struct{}{}[unsafe.Sizeof(frontendBlock{})-line]
	_ = [1]struct{}{}[unsafe.Sizeof(writerLine{})-64]
	_ = [1]struct{}{}[unsafe.Offsetof(slabControl{}.committed)-1*line]
	_ = [1]struct{}{}[unsafe.Offsetof(slabControl{}.pending)-2*line]
	_ = [1]struct{}{}[unsafe.Offsetof(slabControl{}.done)-3*line]
	_ = [1]struct{}{}[unsafe.Sizeof(slabControl{})-4*line]
)

// The accessors below are the only places where bytes become words. Indices come from this package and are in range;
// the slice expressions check them all the same.

func (r *Region) header() *header {
	return (*header)(unsafe.Pointer(&r.mem[:headerBytes][0]))
}

func (r *Region) frontendBlock(i int) *frontendBlock {
	at := r.l.frontends + i*r.l.frontendBytes
	return (*frontendBlock)(unsafe.Pointer(&r.mem[at : at+frontendBlockBytes][0]))
}

func (r *Region) writerWord(frontend, w int) *word64 {
	at := r.l.frontends + frontend*r.l.frontendBytes + frontendBlockBytes + w*writerBytes
	return &(*writerLine)(unsafe.Pointer(&r.mem[at : at+writerBytes][0])).word
}

func (r *Region) slabControl(i int) *slabControl {
	at := r.l.slabs + i*r.l.slabBytes
	return (*slabControl)(unsafe.Pointer(&r.mem[at : at+slabControlBytes][0]))
}

func (r *Region) wordTable(slab, part int) []word64 {
	at := r.l.slabs + slab*r.l.slabBytes + part
	return unsafe.Slice((*word64)(unsafe.Pointer(&r.mem[at : at+8*r.g.Capacity][0])), r.g.Capacity)
}

// aligned reports whether the base of mem can hold the words.
func aligned(mem []byte) bool {
	return len(mem) > 0 && uintptr(unsafe.Pointer(&mem[0]))%64 == 0
}

// HeapMemory returns n zero bytes on the Go heap, aligned as a region needs it. It serves tests under the race detector,
// which does not see mapped memory.
func HeapMemory(n int) []byte {
	b := make([]byte, n+64)
	skip := int(-uintptr(unsafe.Pointer(&b[0])) & 63)
	return b[skip : skip+n : skip+n]
}
