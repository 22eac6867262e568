package load

import (
	"encoding/json"
	"fmt"
	"os"

	"rankd/bench/monitor"
)

// File is what a command writes: the runs of one server.
type File struct {
	Schema  int              `json:"schema"`
	Arm     string           `json:"arm"` // which server it was, in a comparison
	Results []*Result        `json:"results"`
	Memory  []monitor.Memory `json:"memory,omitempty"` // of all processes of the server
}

// WriteJSON replaces the file at path with v as indented JSON.
func WriteJSON(path string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := os.WriteFile(path+".new", append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// ReadFile reads a File.
func ReadFile(path string) (*File, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read results: %w", err)
	}
	f := &File{}
	if err := json.Unmarshal(text, f); err != nil {
		return nil, fmt.Errorf("read results %s: %w", path, err)
	}
	if f.Schema != Schema {
		return nil, fmt.Errorf("read results %s: got schema %d, want %d", path, f.Schema, Schema)
	}
	return f, nil
}
