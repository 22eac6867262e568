package shmring

import "errors"

// Opening a region.
var (
	ErrSize     = errors.New("region is too small for its geometry")
	ErrMagic    = errors.New("not a rankd region, or one that was never finished")
	ErrVersion  = errors.New("region has another layout version")
	ErrChecksum = errors.New("region header is damaged")
)

// Taking a role.
var (
	ErrRoleTaken    = errors.New("role is held by a process that was not reaped")
	ErrNotRecovered = errors.New("traces of the predecessor are still in the slabs")
)

// ErrCorrupt says that a word in the region can't be right. The process that reads it exits; the supervisor rebuilds.
var ErrCorrupt = errors.New("shared region is corrupt")

// Unusable reports whether err means that the region itself is to blame, so that only a fresh one helps.
func Unusable(err error) bool {
	for _, e := range []error{ErrCorrupt, ErrSize, ErrMagic, ErrVersion, ErrChecksum} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
