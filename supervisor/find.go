package supervisor

import (
	"fmt"
	"io/fs"
	"net/netip"
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
	address, err := resolve("listen", listen)
	if err != nil {
		return nil, err
	}
	// A server that was given a name has its state under that, so the address is looked for in all of them.
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("find server at %s: %w", address, err)
	}
	var found *State
	for _, f := range files {
		name, isState := strings.CutSuffix(f.Name(), stateSuffix)
		if !isState {
			continue
		}
		s, err := ReadState(dir, name)
		if err != nil {
			continue
		}
		if s.Listen == address.String() {
			return s, nil
		}
		// A server on all addresses is found by each of them, and asking for all finds one on any.
		if at, err := netip.ParseAddrPort(s.Listen); err == nil && overlap(at, address) && (found == nil || s.Alive()) {
			found = s
		}
	}
	if found != nil {
		return found, nil
	}
	return nil, fmt.Errorf("find server at %s in %s: %w", address, dir, fs.ErrNotExist)
}

// Alive reports whether the supervisor that wrote the state still runs. If it does not, the state is what it left behind.
func (s *State) Alive() bool { return identity{s.PID, s.Start}.alive() }

// Orphans are the children in the state that still run. A living server has them too, but there they are none.
func (s *State) Orphans() (running []Child) {
	for _, c := range s.Children {
		if (identity{c.PID, c.Start}).alive() {
			running = append(running, c)
		}
	}
	return running
}

// TableFDs are the descriptors of the tables and of their copies; none yet while they are loaded.
func (s *State) TableFDs() []int {
	if s.TablesFD < 0 {
		return nil
	}
	return append([]int{s.TablesFD}, s.CopyFDs...)
}

// FDPath is where a descriptor of the server's supervisor can be opened by another process of the same user.
func (s *State) FDPath(fd int) string { return fmt.Sprintf("/proc/%d/fd/%d", s.PID, fd) }
