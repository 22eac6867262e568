package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"rankd/internal/config"
	"rankd/supervisor"
	"rankd/tables"
)

// inspectTables shows the segment that the server uses, wherever it lies, and any other that bears the instance's name.
func inspectTables(c *inspectConfig, s *supervisor.State, out io.Writer) error {
	list, err := tables.List(s.Instance, c.ShmDir)
	if err != nil {
		return err
	}
	used, err := usedTables(s)
	if err != nil {
		return err
	}
	for _, u := range used {
		list = slices.DeleteFunc(list, func(t tables.Info) bool { return sameFile(t.Path, u.link) })
		writeTables(out, u.Info, "in use by server "+s.Instance)
	}
	role := "not in use"
	if len(used) == 0 && s.Alive() {
		role = "being loaded, or left by a former run"
	}
	for _, t := range list {
		writeTables(out, t, role)
	}
	switch {
	case len(used) == 0 && !s.Alive():
		if len(list) == 0 {
			return fmt.Errorf("no tables in memory: %s", about(s))
		}
		return errors.New(about(s))
	case len(used) == 0 && len(list) == 0:
		return fmt.Errorf("no tables in memory yet: %s", about(s))
	}
	return nil
}

// usedSegment is a copy of the tables that the supervisor holds open.
type usedSegment struct {
	tables.Info
	link string // where it can be opened
}

// usedTables describes the tables that the supervisor holds open: none yet while it loads them, or if it is dead.
func usedTables(s *supervisor.State) (list []usedSegment, err error) {
	if !s.Alive() {
		return nil, nil
	}
	for _, fd := range s.TableFDs() {
		link := s.FDPath(fd)
		path, err := os.Readlink(link)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil // it has ended meanwhile
		}
		if err != nil {
			return nil, fmt.Errorf("find tables of process %d: %w", s.PID, err)
		}
		info, err := tables.Describe(link)
		if errors.Is(err, fs.ErrPermission) {
			return nil, fmt.Errorf("read tables of process %d: run as its user or as root: %w", s.PID, err)
		}
		info.Path = strings.TrimPrefix(path, "/memfd:")
		list = append(list, usedSegment{info, link}) // what is wrong with them stands in Problem
	}
	return list, nil
}

func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	y, err2 := os.Stat(b)
	return err == nil && err2 == nil && os.SameFile(x, y)
}

func writeTables(out io.Writer, t tables.Info, role string) {
	fmt.Fprintf(out, "%s, %s\n", t.Path, role)
	if t.Problem != "" {
		fmt.Fprintf(out, "  unusable: %s\n", t.Problem)
		return
	}
	fmt.Fprintf(out, "  %s, layout version %d, digest %s\n  pages: %s\n", config.Bytes(t.Bytes).Human(), t.Version, t.Digest, t.Pages)
	fmt.Fprintf(out, "  %-24s %12s %6s %-9s %12s\n", "table", "rows", "dim", "dtype", "bytes")
	for _, e := range t.Tables {
		fmt.Fprintf(out, "  %-24s %12d %6d %-9s %12s\n", e.Name, e.Rows, e.Dim, e.DType, config.Bytes(e.Bytes).Human())
	}
}
