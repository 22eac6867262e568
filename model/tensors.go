package model

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	mmap "github.com/edsrzf/mmap-go"

	"rankd/internal/dtype"
)

// Tensor is one array of a safetensors file.
type Tensor struct {
	Name   string
	DType  dtype.DType
	Shape  []int64 // row-major; empty for a scalar
	Offset int64   // of Data in the file, in bytes
	Data   []byte  // little-endian; aliases the mapping until Tensors.Close
}

// Elements returns the number of elements; 1 for a scalar.
func (t Tensor) Elements() int64 { return int64(len(t.Data) / max(1, t.DType.Size())) }

// Tensors is an open safetensors file, mapped read-only.
type Tensors struct {
	path    string
	mapping mmap.MMap
	tensors []Tensor // in the order of their data
	byName  map[string]int
}

// OpenTensors maps the safetensors file at path and checks its whole header (I5). The data is not read.
// The caller closes it, after which no Data of it may be touched.
func OpenTensors(path string) (_ *Tensors, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("open tensors %q: %w", path, err)
		}
	}()
	f, err := OpenFile(path)
	if err != nil {
		return nil, errors.Unwrap(err) // the path is said once, above
	}
	defer f.Close() // the mapping keeps the file
	size, err := checkFileSize(f)
	if err != nil {
		return nil, err
	}
	// Read the header with read(2), not through the mapping: a broken file should be refused before anything is mapped.
	list, err := readTensors(f, size)
	if err != nil {
		return nil, err
	}
	m, err := mmap.Map(f, mmap.RDONLY, 0)
	if err != nil {
		return nil, fmt.Errorf("map %d bytes: %w", size, err)
	}
	if int64(len(m)) != size {
		_ = m.Unmap()
		return nil, fmt.Errorf("file size: got %d bytes when mapped, want %d", len(m), size)
	}
	t := &Tensors{path: path, mapping: m, tensors: list, byName: make(map[string]int, len(list))}
	for i := range list {
		e := &list[i]
		n, _ := tensorBytes(e.DType, e.Shape) // readTensors has checked it
		e.Data = m[e.Offset : e.Offset+n : e.Offset+n]
		t.byName[e.Name] = i
	}
	return t, nil
}

func checkFileSize(f *os.File) (int64, error) {
	fi, err := f.Stat()
	if err != nil {
		return 0, err
	}
	if fi.Size() < 8 {
		return 0, fmt.Errorf("file size: got %d bytes, want at least 8", fi.Size())
	}
	return fi.Size(), nil
}

// readTensors reads and checks the header of a file of size bytes. The tensors come back in the order of their data, without Data.
func readTensors(f io.ReaderAt, size int64) ([]Tensor, error) {
	header, err := readHeader(f, size)
	if err != nil {
		return nil, err
	}
	dataStart := 8 + int64(len(header))
	list, err := parseHeader(header, size-dataStart)
	if err != nil {
		return nil, err
	}
	for i := range list {
		list[i].Offset += dataStart
	}
	return list, nil
}

func readHeader(f io.ReaderAt, size int64) ([]byte, error) {
	var word [8]byte
	if _, err := f.ReadAt(word[:], 0); err != nil {
		return nil, fmt.Errorf("read header length: %w", err)
	}
	n := binary.LittleEndian.Uint64(word[:])
	if limit := min(uint64(size-8), maxHeaderBytes); n > limit {
		return nil, fmt.Errorf("header length: got %d bytes, want at most %d", n, limit)
	}
	header := make([]byte, n)
	if _, err := f.ReadAt(header, 8); err != nil {
		return nil, fmt.Errorf("read header: %w", err)
	}
	return header, nil
}

// Path returns the path that the file was opened with.
func (t *Tensors) Path() string { return t.path }

// Names returns the names of all tensors in the order of their data.
func (t *Tensors) Names() []string {
	names := make([]string, len(t.tensors))
	for i := range t.tensors {
		names[i] = t.tensors[i].Name
	}
	return names
}

// Tensor returns the tensor called name and whether there is one.
func (t *Tensors) Tensor(name string) (Tensor, bool) {
	i, ok := t.byName[name]
	if !ok {
		return Tensor{}, false
	}
	return t.tensors[i], true
}

// Want returns the tensor called name, or an error that names the file if it is missing or not of the given type and shape.
func (t *Tensors) Want(name string, d dtype.DType, shape ...int64) (Tensor, error) {
	x, ok := t.Tensor(name)
	switch {
	case !ok:
		return Tensor{}, fmt.Errorf("tensor %q of %q: got none", name, t.path)
	case x.DType != d:
		return Tensor{}, fmt.Errorf("tensor %q of %q: got dtype %s, want %s", name, t.path, x.DType, d)
	case !equalShape(x.Shape, shape):
		return Tensor{}, fmt.Errorf("tensor %q of %q: got shape %v, want %v", name, t.path, x.Shape, shape)
	}
	return x, nil
}

func equalShape(a, b []int64) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// Close unmaps the file. It must be called once.
func (t *Tensors) Close() error {
	t.tensors, t.byName = nil, nil
	if err := t.mapping.Unmap(); err != nil {
		return fmt.Errorf("unmap tensors %q: %w", t.path, err)
	}
	return nil
}
