package model

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// ErrNotAFile: a part of a bundle is a directory, a pipe or a device.
var ErrNotAFile = errors.New("not a file")

// OpenFile opens a regular file of a bundle for reading. Opening a pipe would wait for its writer, and reading a device might never
// end, so they are refused.
func OpenFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	fi, err := f.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = &os.PathError{Op: "open", Path: path, Err: fmt.Errorf("%w: %s, want a regular file", ErrNotAFile, kindOf(fi.Mode()))}
	}
	if err != nil {
		_ = f.Close() // of a file that was only opened
		return nil, err
	}
	return f, nil
}

func kindOf(mode os.FileMode) string {
	switch {
	case mode.IsDir():
		return "a directory"
	case mode&os.ModeNamedPipe != 0:
		return "a named pipe"
	case mode&os.ModeSocket != 0:
		return "a socket"
	}
	return "a device"
}
