package supervisor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// stateVersion is the version of the state file.
const stateVersion = 1

// PhaseServing is the phase of a server that has become ready and is not asked to stop.
const PhaseServing = string(phaseServing)

const stateSuffix = ".state.json"

// State is the state file: what the inspector and the next supervisor need to know of a server. The descriptors are those of
// the supervisor and can be opened as /proc/PID/fd/N.
type State struct {
	Version   int       `json:"version"`
	Instance  string    `json:"instance"`
	PID       int       `json:"pid"`
	Start     uint64    `json:"start"` // clock ticks since boot
	StartedAt time.Time `json:"started_at"`
	Listen    string    `json:"listen"`
	HTTP      string    `json:"http,omitempty"`
	Model     Model     `json:"model"`
	Phase     string    `json:"phase,omitempty"`
	RegionFD  int       `json:"region_fd"` // -1: none yet
	StatsFD   int       `json:"stats_fd"`
	TablesFD  int       `json:"tables_fd"`          // -1: none yet
	CopyFDs   []int     `json:"copy_fds,omitempty"` // of copies of the tables on other nodes
	Children  []Child   `json:"children"`
}

// Child is one running child in the state file.
type Child struct {
	Role        string `json:"role"`
	Index       int    `json:"index"`
	Incarnation uint32 `json:"incarnation"`
	PID         int    `json:"pid"`
	Start       uint64 `json:"start"`
}

// StatePath is the state file of an instance.
func StatePath(runDir, instance string) string {
	return filepath.Join(runDir, instance+stateSuffix)
}

// ReadState reads the state file of an instance. The error is fs.ErrNotExist if no such server runs.
func ReadState(runDir, instance string) (*State, error) {
	path := StatePath(runDir, instance)
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read state: %w", err)
	}
	s := &State{}
	if err := json.Unmarshal(text, s); err != nil {
		return nil, fmt.Errorf("read state %s: %w", path, err)
	}
	if s.Version != stateVersion {
		return nil, fmt.Errorf("read state %s: got version %d, want %d", path, s.Version, stateVersion)
	}
	return s, nil
}

// write replaces the state file in one step.
func (s *State) write(runDir string) error {
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("write state: %w", err)
	}
	path := StatePath(runDir, s.Instance)
	if err := os.WriteFile(path+".new", append(text, '\n'), 0o600); err != nil {
		return fmt.Errorf("write state: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("write state: %w", err)
	}
	return nil
}

// endOrphans ends every child that the state file at path records and that still runs as recorded.
func endOrphans(runDir, instance string) error {
	s, err := ReadState(runDir, instance)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var errs []error
	for _, c := range s.Children {
		errs = append(errs, identity{c.PID, c.Start}.end(orphanLimit))
	}
	return errors.Join(errs...)
}

// removeLeftovers removes files of the instance from dirs, but for those that keep accepts (I6).
func removeLeftovers(dirs []string, instance string, keep func(path string) bool) (removed []string, err error) {
	prefix := "rankd." + instance + "."
	var errs []error
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("look for leftovers: %w", err))
		}
		for _, e := range entries {
			path := filepath.Join(dir, e.Name())
			if !strings.HasPrefix(e.Name(), prefix) || !e.Type().IsRegular() || keep(path) {
				continue
			}
			if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, fmt.Errorf("remove leftover: %w", err))
				continue
			}
			removed = append(removed, path)
		}
	}
	return removed, errors.Join(errs...)
}
