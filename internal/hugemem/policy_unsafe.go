package hugemem

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// setPolicy prefers one node for the pages of the mapping, or several by turns. Pages that are there stay where they are.
func (m *Mapping) setPolicy(nodes []int) error {
	mode := unix.MPOL_PREFERRED
	if len(nodes) > 1 {
		mode = unix.MPOL_INTERLEAVE
	}
	var mask unix.CPUSet
	for _, n := range nodes {
		if n < 0 || n > maxNode {
			return unix.EINVAL
		}
		mask.Set(n)
	}
	_, _, errno := unix.Syscall6(unix.SYS_MBIND, uintptr(unsafe.Pointer(unsafe.SliceData(m.Bytes))), uintptr(len(m.Bytes)),
		uintptr(mode), uintptr(unsafe.Pointer(&mask)), maxNode+2, 0)
	if errno != 0 {
		return errno
	}
	return nil
}
