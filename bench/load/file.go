package load

import (
	"encoding/json"
	"fmt"
	"os"

	"rankd/bench/monitor"
)

// File is what a command writes: the runs of one server.
type File struct {
	Schema int    `json:"schema"`
	Arm    string `json:"arm"` // which server it was, in a comparison

	// Variant tells servers of one arm apart, such as by their numbers of processes; Sweep says that these runs only
	// served to find the best variant; Repeat counts starts of the server from 1.
	Variant string   `json:"variant,omitempty"`
	Sweep   bool     `json:"sweep,omitempty"`
	Repeat  int      `json:"repeat,omitempty"`
	Command []string `json:"command,omitempty"`
	// Config is a digest of everything that was set: results of another one are of something else.
	Config string `json:"config,omitempty"`
	// Sizes are bytes that the server itself says: of its tables, of what lies between frontends and device.
	Sizes   *Sizes           `json:"sizes,omitempty"`
	Results []*Result        `json:"results"`
	Memory  []monitor.Memory `json:"memory,omitempty"` // of all processes of the server
}

// Sizes are bytes of memory that a server must have, and its number of frontends.
type Sizes struct {
	Tables    int64 `json:"tables_bytes"`
	Region    int64 `json:"region_bytes"`
	Frontends int   `json:"frontends"`
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
