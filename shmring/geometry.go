package shmring

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// Bounds of a geometry. They follow from the widths of the packed words.
const (
	MaxFrontends = 64      // one bit each in the pending and space masks
	MaxSlabs     = 64      // one bit each in the open mask
	MaxCapacity  = 1 << 16 // rows a slab; a reservation's row count has 17 bits
	MaxArrays    = 4       // packed arrays a slab, one per dtype
	MaxWriters   = 256     // writer tokens a frontend
)

// Geometry fixes the size of everything in a region. It is written into the header once and never changes.
type Geometry struct {
	Slabs      int   // batches under construction, in flight or being read: at least 2
	Capacity   int   // rows a slab
	ChunkRows  int   // most rows of one reservation
	Strides    []int // bytes a row of each packed array, multiples of 64
	ScoreBytes int   // bytes a row of the score array
	Frontends  int   // frontend blocks
	Writers    int   // writer tokens a frontend: how many of its goroutines may hold a reservation at once
}

// Validate returns every violation of the bounds.
func (g Geometry) Validate() error {
	var errs []error
	check := func(name string, got, lo, hi int) {
		if got < lo || got > hi {
			errs = append(errs, fmt.Errorf("geometry %s: got %d, want %d to %d", name, got, lo, hi))
		}
	}
	check("slabs", g.Slabs, 2, MaxSlabs)
	check("capacity", g.Capacity, 1, MaxCapacity)
	check("chunk rows", g.ChunkRows, 1, max(g.Capacity, 1))
	check("packed arrays", len(g.Strides), 1, MaxArrays)
	check("score bytes", g.ScoreBytes, 1, 1<<16)
	check("frontends", g.Frontends, 1, MaxFrontends)
	check("writers", g.Writers, 1, MaxWriters)
	for i, s := range g.Strides {
		check(fmt.Sprintf("stride %d", i), s, 64, 1<<24)
		if s%64 != 0 {
			errs = append(errs, fmt.Errorf("geometry stride %d: got %d, want a multiple of 64", i, s))
		}
	}
	return errors.Join(errs...)
}

// checksum covers every field, so that a header that was half written or damaged is not believed.
func (g Geometry) checksum() uint32 {
	b := make([]byte, 0, 64)
	for _, v := range []int{version, g.Slabs, g.Capacity, g.ChunkRows, len(g.Strides), g.ScoreBytes, g.Frontends, g.Writers} {
		b = binary.LittleEndian.AppendUint32(b, uint32(v))
	}
	for _, s := range g.Strides {
		b = binary.LittleEndian.AppendUint32(b, uint32(s))
	}
	return crc32.ChecksumIEEE(b)
}

// layout holds every offset of a region; nothing else computes one. Offsets are bytes from the region's base, those of a
// slab's parts bytes from the slab's base.
type layout struct {
	frontends     int // first frontend block
	frontendBytes int
	slabs         int // first slab
	slabBytes     int
	entries       int // reservation table
	results       int // per-reservation results
	arrays        [MaxArrays]int
	scores        int
	total         int
}

const page = 4096

func alignUp(n, to int) int { return (n + to - 1) / to * to }

func (g Geometry) layout() layout {
	var l layout
	l.frontends = alignUp(headerBytes, page)
	l.frontendBytes = frontendBlockBytes + g.Writers*writerBytes
	l.slabs = alignUp(l.frontends+g.Frontends*l.frontendBytes, page)
	at := slabControlBytes
	l.entries = at
	at += 8 * g.Capacity
	l.results = at
	at = alignUp(at+8*g.Capacity, page)
	for i, s := range g.Strides {
		l.arrays[i] = at
		at = alignUp(at+s*g.Capacity, page)
	}
	l.scores = at
	l.slabBytes = alignUp(at+g.ScoreBytes*g.Capacity, page)
	l.total = l.slabs + g.Slabs*l.slabBytes
	return l
}

// Bytes returns the size of the region.
//
// Preconditions:
//   - Validate returned nil.
func (g Geometry) Bytes() int { return g.layout().total }

// SlabBytes returns the bytes of one slab, its tables and scores included.
func (g Geometry) SlabBytes() int { return g.layout().slabBytes }
