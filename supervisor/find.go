package supervisor

import "fmt"

// FindState reads the state of a running server for tools: by its instance name or, if that is empty, by its listening
// address. An empty run directory is the one that a server without --run-dir uses. The error is fs.ErrNotExist if no such server runs.
func FindState(dir, instance, listen string) (*State, error) {
	dir = RunDir(dir)
	if instance == "" {
		address, err := resolve(listen)
		if err != nil {
			return nil, err
		}
		instance = instanceFor(address.String())
	}
	return ReadState(dir, instance)
}

// FDPath is where a descriptor of the server's supervisor can be opened by another process of the same user.
func (s *State) FDPath(fd int) string { return fmt.Sprintf("/proc/%d/fd/%d", s.PID, fd) }
