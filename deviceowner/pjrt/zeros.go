package pjrt

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// zeroRows returns packed arrays of zero rows. They are untouched private mappings, so that even a large bucket costs no
// memory on the host. free unmaps them.
func zeroRows(arrays []Array, rows int) (zeros [][]byte, free func(), err error) {
	free = func() {
		for _, z := range zeros {
			_ = unix.Munmap(z) // fails only for a slice that is no mapping
		}
	}
	for _, a := range arrays {
		z, err := unix.Mmap(-1, 0, rows*a.Stride, unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANON)
		if err != nil {
			free()
			return nil, nil, fmt.Errorf("map %d zero rows: %w", rows, err)
		}
		zeros = append(zeros, z)
	}
	return zeros, free, nil
}
