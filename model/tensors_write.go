package model

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"unicode/utf8"

	"rankd/internal/dtype"
)

// dataAlign is the alignment of the first tensor's data in the files that this package writes: a cache line, so that the
// rows of a table lie in its mapping as they lie in memory.
const dataAlign = 64

// NamedTensor is a tensor to be written. The bytes come from Data, or, where Fill is set, from Fill: it writes exactly the
// tensor's bytes to w, in any number of pieces, so that a table larger than memory can be written.
type NamedTensor struct {
	Name  string
	DType dtype.DType
	Shape []int64
	Data  []byte
	Fill  func(w io.Writer) error
}

// WriteTensors writes a safetensors file with the tensors in the given order. The file appears under path whole or not at all.
func WriteTensors(path string, ts []NamedTensor) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".tmp-")
	if err != nil {
		return fmt.Errorf("write tensors %q: %w", path, err)
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			_ = os.Remove(f.Name())
			err = fmt.Errorf("write tensors %q: %w", path, err)
		}
	}()
	w := bufio.NewWriterSize(f, 1<<16)
	if err := EncodeTensors(w, ts); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if err := f.Chmod(0o644); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// EncodeTensors writes the bytes of a safetensors file to w. Errors name the tensor.
func EncodeTensors(w io.Writer, ts []NamedTensor) error {
	header, sizes, err := encodeHeader(ts)
	if err != nil {
		return err
	}
	if _, err := w.Write(header); err != nil {
		return err
	}
	for i, t := range ts {
		c := &countingWriter{w: w, left: sizes[i]}
		if t.Fill != nil {
			err = t.Fill(c)
		} else {
			_, err = c.Write(t.Data)
		}
		if err != nil {
			return fmt.Errorf("tensor %q: %w", t.Name, err)
		}
		if c.left != 0 {
			return fmt.Errorf("tensor %q: got %d bytes, want %d for shape %v of %s", t.Name, sizes[i]-c.left, sizes[i], t.Shape, t.DType)
		}
	}
	return nil
}

// encodeHeader returns the length word and the header, padded with spaces to dataAlign, and each tensor's size in bytes.
func encodeHeader(ts []NamedTensor) ([]byte, []int64, error) {
	var b bytes.Buffer
	b.Write(make([]byte, 8))
	b.WriteByte('{')
	sizes := make([]int64, len(ts))
	seen := make(map[string]struct{}, len(ts))
	at := int64(0)
	for i, t := range ts {
		typeName, ok := tensorTypeName(t.DType)
		if !ok {
			return nil, nil, fmt.Errorf("tensor %q: dtype: got %s, which a safetensors file cannot hold", t.Name, t.DType)
		}
		if _, dup := seen[t.Name]; dup || t.Name == metadataKey || !utf8.ValidString(t.Name) {
			return nil, nil, fmt.Errorf("tensor %q: name: want a unique name in UTF-8 other than %q", t.Name, metadataKey)
		}
		seen[t.Name] = struct{}{}
		n, ok := tensorBytes(t.DType, t.Shape)
		if !ok || at+n < at {
			return nil, nil, fmt.Errorf("tensor %q: shape %v of %s: size overflows", t.Name, t.Shape, t.DType)
		}
		sizes[i] = n
		if i > 0 {
			b.WriteByte(',')
		}
		shape := t.Shape
		if shape == nil {
			shape = []int64{} // a scalar is [], not null
		}
		name, err := json.Marshal(t.Name)
		if err != nil {
			return nil, nil, fmt.Errorf("tensor %q: name: %w", t.Name, err)
		}
		dims, err := json.Marshal(shape)
		if err != nil {
			return nil, nil, fmt.Errorf("tensor %q: shape: %w", t.Name, err)
		}
		fmt.Fprintf(&b, `%s:{"dtype":%q,"shape":%s,"data_offsets":[%d,%d]}`, name, typeName, dims, at, at+n)
		at += n
	}
	b.WriteByte('}')
	for b.Len()%dataAlign != 0 {
		b.WriteByte(' ')
	}
	n := b.Len() - 8
	if n > maxHeaderBytes {
		return nil, nil, fmt.Errorf("header length: got %d bytes, want at most %d", n, maxHeaderBytes)
	}
	binary.LittleEndian.PutUint64(b.Bytes(), uint64(n))
	return b.Bytes(), sizes, nil
}

// countingWriter refuses bytes beyond what the tensor's shape says, so that one wrong Fill cannot shift all later tensors.
type countingWriter struct {
	w    io.Writer
	left int64
}

func (c *countingWriter) Write(p []byte) (int, error) {
	if int64(len(p)) > c.left {
		return 0, fmt.Errorf("got %d bytes too many", int64(len(p))-c.left)
	}
	n, err := c.w.Write(p)
	c.left -= int64(n)
	return n, err
}
