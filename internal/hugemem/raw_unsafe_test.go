package hugemem

import "unsafe"

func rawMapping(p unsafe.Pointer, size int64) *Mapping {
	return &Mapping{raw: p, Bytes: unsafe.Slice((*byte)(p), int(size))}
}
