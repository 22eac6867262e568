package tables

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"

	"rankd/internal/hugemem"
)

// Info is a segment as people look at it.
type Info struct {
	Path    string           `json:"path,omitempty"`
	Problem string           `json:"problem,omitempty"` // why it cannot be used; then only Path and Bytes are set
	Version int              `json:"version"`           // of the layout
	Digest  string           `json:"digest"`            // Manifest.TablesDigest, hex
	Bytes   int64            `json:"bytes"`             // of the file
	Pages   hugemem.Coverage `json:"pages"`             // in the process that asks
	Tables  []TableInfo      `json:"tables"`
}

// TableInfo is one table of a segment.
type TableInfo struct {
	Name   string `json:"name"`
	Rows   int64  `json:"rows"`
	Dim    int    `json:"dim"`
	DType  string `json:"dtype"`
	Stride int    `json:"stride_bytes"` // from one row to the next
	Offset int64  `json:"offset_bytes"` // of row 0 in the file
	Bytes  int64  `json:"bytes"`
}

func describe(l *layout, pages hugemem.Coverage) Info {
	info := Info{Version: version, Digest: hex.EncodeToString(l.digest[:]), Bytes: l.fileBytes, Pages: pages}
	for _, t := range l.tables {
		info.Tables = append(info.Tables, TableInfo{
			Name: t.name, Rows: t.rows, Dim: t.dim, DType: t.dtype.String(), Stride: t.stride, Offset: t.offset, Bytes: t.bytes(),
		})
	}
	return info
}

// Describe reads the header of the segment at path, without a manifest, and looks at its pages from this process.
// An unusable segment gives its sentinel and an Info with Problem set.
func Describe(path string) (Info, error) {
	f, err := os.Open(path)
	if err != nil {
		return Info{Path: path, Problem: err.Error()}, fmt.Errorf("describe tables: %w", err)
	}
	defer f.Close()
	return describeFD(int(f.Fd()), path)
}

func describeFD(fd int, path string) (Info, error) {
	mapping, l, err := mapSegment(fd)
	if err != nil {
		info := Info{Path: path, Problem: err.Error()}
		if fi, e := os.Stat(path); e == nil {
			info.Bytes = fi.Size()
		}
		return info, fmt.Errorf("describe tables %q: %w", path, err)
	}
	err = mapping.Populate(context.Background())
	pages, err2 := mapping.Coverage()
	info := describe(&l, pages)
	info.Path = path
	return info, errors.Join(err, err2, mapping.Unmap())
}

// List describes every segment of an instance in the directories where one may lie, unusable ones with their Problem. dir is
// the value of --shm-dir.
func List(instance, dir string) ([]Info, error) {
	paths, err := segmentPaths(instance, dir)
	if err != nil {
		return nil, err
	}
	var out []Info
	for _, path := range paths {
		info, _ := Describe(path) // what is wrong stands in Problem
		out = append(out, info)
	}
	return out, nil
}

// segmentPaths finds the files named as segments of the instance.
func segmentPaths(instance, dir string) ([]string, error) {
	if err := checkInstance(instance); err != nil {
		return nil, err
	}
	var out []string
	for _, d := range hugemem.Dirs(dir) {
		found, err := filepath.Glob(filepath.Join(escapeGlob(d), namePrefix(instance)+"*"))
		if err != nil {
			return nil, fmt.Errorf("list segments in %q: %w", d, err)
		}
		out = append(out, found...)
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// Checksum is the CRC-32C of every byte of every table. Reading it all takes as long as the memory takes; tests and
// "rankd inspect" use it to see that nobody wrote to the tables.
func (s *Set) Checksum() uint32 {
	return crc32.Checksum(s.mem[s.layout.dataOffset:s.layout.used()], castagnoli)
}
