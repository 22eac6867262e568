package suite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	lockName        = "lock"             // in a folder of results
	machineLockName = "rankd-bench.lock" // in the directory of temporary files
)

// Lock keeps other comparisons away from the folder of results, and from the machine: two at once would measure each other. The kernel
// frees it when the process ends, however that is. It is not inherited by a program that is executed, which takes it anew.
func Lock(o Options) (release func(), err error) {
	if err := os.MkdirAll(o.Results(), 0o755); err != nil {
		return nil, fmt.Errorf("lock results: %w", err)
	}
	folder, err := lockFile(filepath.Join(o.Results(), lockName))
	if err != nil {
		return nil, fmt.Errorf("lock results --name %s: %w", o.Name, err)
	}
	machine, err := lockFile(filepath.Join(os.TempDir(), machineLockName))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock this machine for a comparison: %w", err), folder.Close())
	}
	return func() { _, _ = folder.Close(), machine.Close() }, nil // closing frees; nothing was written that could be lost
}

// lockFile locks a file and writes our process into it.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	}
	if errors.Is(err, fs.ErrPermission) { // another user's: it can be locked, but not written to
		f, err = os.Open(path)
	}
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		pid, _ := os.ReadFile(path) // for the message only
		return nil, errors.Join(fmt.Errorf("process %s has %s: wait until it ends, or end it", strings.TrimSpace(string(pid)), path), f.Close())
	}
	if err == nil {
		_ = f.Truncate(0)                                          // a file of another user: its pid is for a message only
		_, _ = f.WriteAt(fmt.Appendf(nil, "%d\n", os.Getpid()), 0) // the same
		return f, nil
	}
	return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
}
