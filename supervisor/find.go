package supervisor

import (
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// FindState reads the state of a running server for tools: by its instance name or, if that is empty, by its listening
// address. An empty run directory is the one that a server without --run-dir uses. The error is fs.ErrNotExist if no such server runs.
func FindState(dir, instance, listen string) (*State, error) {
	dir = RunDir(dir)
	if instance != "" {
		return ReadState(dir, instance)
	}
	address, err := resolve(listen)
	if err != nil {
		return nil, err
	}
	// A server that was given a name has its state under that, so the address is looked for in all of them.
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("find server at %s: %w", address, err)
	}
	for _, f := range files {
		name, isState := strings.CutSuffix(f.Name(), stateSuffix)
		if !isState {
			continue
		}
		if s, err := ReadState(dir, name); err == nil && s.Listen == address.String() {
			return s, nil
		}
	}
	return nil, fmt.Errorf("find server at %s in %s: %w", address, dir, fs.ErrNotExist)
}

// FDPath is where a descriptor of the server's supervisor can be opened by another process of the same user.
func (s *State) FDPath(fd int) string { return fmt.Sprintf("/proc/%d/fd/%d", s.PID, fd) }
