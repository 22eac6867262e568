package tables

import (
	"errors"
	"fmt"
)

// Opening a segment.
var (
	ErrNotReady = errors.New("segment is not complete")
	ErrSize     = errors.New("segment has the wrong size")
	ErrVersion  = errors.New("segment has another layout version")
	ErrChecksum = errors.New("segment header is damaged")
	ErrGeometry = errors.New("segment geometry does not fit")
	ErrContent  = errors.New("segment holds other tables")
	ErrOwner    = errors.New("segment belongs to another user")
	ErrBusy     = errors.New("segment is held by another process")
)

// Loading.
var ErrDigest = errors.New("file differs from the manifest's digest")

// Lookup. ErrBags means that the caller described its bags wrongly, which a request cannot cause.
var ErrBags = errors.New("bags do not fit the tables")

// DigestError is an ErrDigest with its figures.
type DigestError struct {
	File, Got, Want string // File is relative to the bundle; the digests read "sha256:<hex>"
}

func (e *DigestError) Error() string {
	return fmt.Sprintf("verify file %q: got %s, want %s; \"rankd model check DIR\" looks at the whole bundle", e.File, e.Got, e.Want)
}

// Is makes a DigestError an ErrDigest.
func (e *DigestError) Is(target error) bool { return target == ErrDigest }

// IDError is an id outside a table whose policy is reject.
type IDError struct {
	Table    string
	Row      int   // of the request
	Position int   // in the bag
	ID       int64 // got
	Rows     int64 // want 0 to Rows-1
}

func (e *IDError) Error() string {
	return fmt.Sprintf("table %q, row %d, position %d: got id %d, want 0 to %d", e.Table, e.Row, e.Position, e.ID, e.Rows-1)
}
