package tables

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"rankd/internal/faults"
	"rankd/model"
)

// sources is the open files of a bundle's tables.
type sources struct {
	files []*sourceFile // in the order of their first table
}

// sourceFile is one safetensors file: mapped for copying, open for its digest.
type sourceFile struct {
	name    string // relative, as in the manifest
	want    string // digest
	file    *os.File
	size    int64
	tensors []*model.Tensors // one mapping for each table in the file
	tables  []sourceTable
}

type sourceTable struct {
	index int    // of the table in the manifest
	data  []byte // aliases the mapping
}

func openSources(b *model.Bundle) (*sources, error) {
	s := &sources{}
	byName := map[string]*sourceFile{}
	for i, t := range b.Manifest.Tables {
		f := byName[t.File]
		if f == nil {
			f = &sourceFile{name: t.File, want: b.Manifest.Digests[t.File]}
			byName[t.File] = f
			s.files = append(s.files, f)
			if err := f.open(b.Path(t.File)); err != nil {
				return nil, errors.Join(err, s.close())
			}
		}
		tensors, x, err := b.OpenTable(i)
		if err != nil {
			return nil, errors.Join(err, s.close())
		}
		f.tensors = append(f.tensors, tensors)
		f.tables = append(f.tables, sourceTable{i, x.Data})
	}
	return s, nil
}

func (f *sourceFile) open(path string) error {
	var err error
	if f.file, err = model.OpenFile(path); err != nil {
		return err
	}
	fi, err := f.file.Stat()
	if err == nil {
		f.size = fi.Size()
	}
	return err
}

// bytes is the size of all files.
func (s *sources) bytes() int64 {
	n := int64(0)
	for _, f := range s.files {
		n += f.size
	}
	return n
}

func (s *sources) close() error {
	var errs []error
	for _, f := range s.files {
		if f.file != nil {
			errs = append(errs, f.file.Close())
		}
		for _, t := range f.tensors {
			errs = append(errs, t.Close())
		}
	}
	return errors.Join(errs...)
}

// check reads the whole file and compares its digest.
func (f *sourceFile) check(ctx context.Context, progress *meter) error {
	h := sha256.New()
	buf := make([]byte, 1<<20)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := f.file.Read(buf)
		h.Write(buf[:n])
		progress.checked.Add(int64(n))
		if err == io.EOF {
			break
		}
		if err != nil {
			return fmt.Errorf("verify file %q: %w", f.name, err)
		}
	}
	if got := "sha256:" + hex.EncodeToString(h.Sum(nil)); got != f.want {
		return &DigestError{File: f.name, Got: got, Want: f.want}
	}
	return nil
}

// tableCopy copies one table.
type tableCopy struct {
	dst    []byte // from row 0 on
	src    []byte
	layout tableLayout
}

// memoryFault is what the runtime panics with under debug.SetPanicOnFault.
type memoryFault interface {
	error
	Addr() uintptr
}

const defaultChunk = 4 << 20

func (t *tableCopy) chunkRows(bytes int64) int64 {
	if bytes <= 0 {
		bytes = defaultChunk
	}
	return max(1, bytes/int64(t.layout.stride))
}

// chunk copies the rows from first on. A source that is cut off while it is read, or memory that turns out to be missing,
// is an error and not the end of the process.
func (t *tableCopy) chunk(ctx context.Context, first int64, o Options, progress *meter) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			fault, ok := r.(memoryFault)
			if !ok {
				panic(r)
			}
			err = fmt.Errorf("copy table %q from row %d: %w", t.layout.name, first, fault)
		}
	}()
	rows := min(t.chunkRows(o.chunkBytes), t.layout.rows-first)
	stride, width := int64(t.layout.stride), int64(model.RowBytes(t.layout.dtype, t.layout.dim))
	dst := t.dst[first*stride : (first+rows)*stride]
	src := t.src[first*width : (first+rows)*width]
	if stride == width {
		copy(dst, src)
	} else {
		for r := range rows { // the padding is zero already
			copy(dst[r*stride:], src[r*width:(r+1)*width])
		}
	}
	progress.copied.Add(rows * stride)
	if o.afterChunk != nil {
		o.afterChunk()
	}
	faults.Hit("tables.chunk")
	return nil
}
