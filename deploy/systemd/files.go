package systemd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Change is what writing or removing a file did.
type Change struct {
	Path string
	What string // "written", "as it was", "removed" or "kept"
}

// Write writes files below root, which is "" for this machine; dry only says what would be done.
func Write(root string, files []File, dry bool) ([]Change, error) {
	var done []Change
	for _, f := range files {
		path := filepath.Join(root, f.Path)
		old, err := os.ReadFile(path)
		if err == nil && string(old) == f.Text {
			done = append(done, Change{path, "as it was"})
			continue
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return done, fmt.Errorf("write %s: %w", path, err)
		}
		if !dry {
			if err := replace(path, f.Text, 0o644); err != nil {
				return done, fmt.Errorf("write %s: %w", path, err)
			}
		}
		done = append(done, Change{path, "written"})
	}
	return done, nil
}

// WriteNew writes a file only if there is none (I4).
func WriteNew(root string, f File, mode fs.FileMode, dry bool) (Change, error) {
	path := filepath.Join(root, f.Path)
	if _, err := os.Lstat(path); err == nil {
		return Change{path, "kept"}, nil
	}
	if !dry {
		if err := replace(path, f.Text, mode); err != nil {
			return Change{}, fmt.Errorf("write %s: %w", path, err)
		}
	}
	return Change{path, "written"}, nil
}

// Remove removes files that are as they were written. Others somebody has edited, or they are another program's: they are kept.
func Remove(root string, files []File, dry bool) ([]Change, error) {
	var done []Change
	for _, f := range files {
		path := filepath.Join(root, f.Path)
		text, err := os.ReadFile(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return done, fmt.Errorf("remove %s: %w", path, err)
		case string(text) != f.Text:
			done = append(done, Change{path, "kept"})
			continue
		}
		if !dry {
			if err := os.Remove(path); err != nil {
				return done, fmt.Errorf("remove %s: %w", path, err)
			}
		}
		done = append(done, Change{path, "removed"})
	}
	return done, nil
}

// replace writes a file in one step.
func replace(path, text string, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".rankd-*")
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	err = errors.Join(err, f.Chmod(mode), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
