package model

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"rankd/internal/dtype"
)

// Bundle is a model on disk: the directory and its manifest, which nobody changes.
type Bundle struct {
	Dir      string
	Manifest *Manifest
}

// Open reads and validates dir/manifest.json. It touches no other file; VerifyDigests, VerifyNetwork and CheckTensors do.
func Open(dir string) (*Bundle, error) {
	data, err := readLimited(filepath.Join(dir, ManifestFile), maxManifestBytes)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return nil, fmt.Errorf("open bundle %q: %w; want the directory of a bundle (\"rankd model create-demo DIR\" makes one)", dir, err)
	}
	if err != nil {
		return nil, fmt.Errorf("open bundle %q: %w", dir, err)
	}
	m, err := DecodeManifest(data)
	if err != nil {
		return nil, fmt.Errorf("open bundle %q: %s: %w", dir, ManifestFile, err)
	}
	return &Bundle{Dir: dir, Manifest: m}, nil
}

func readLimited(name string, limit int64) ([]byte, error) {
	f, err := OpenFile(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("read %q: got more than %d bytes", name, limit)
	}
	return data, nil
}

// Path returns the path of a file of the bundle, given its slash-separated relative path from the manifest.
func (b *Bundle) Path(rel string) string { return filepath.Join(b.Dir, filepath.FromSlash(rel)) }

// badPath says what is wrong with a relative path of the manifest, or returns "".
func badPath(p string) string {
	if p == "" || p == ManifestFile || strings.ContainsAny(p, "\\\x00") || path.Clean(p) != p || !filepath.IsLocal(p) || p == "." {
		return strconv.Quote(p)
	}
	return ""
}

// OpenTable opens the file of table i and returns its tensor, checked against the manifest: RowDType, [Rows, Dim], or for int8
// rows uint8, [Rows, Dim+8].
// The caller closes the file.
func (b *Bundle) OpenTable(i int) (*Tensors, Tensor, error) {
	t := &b.Manifest.Tables[i]
	file, err := OpenTensors(b.Path(t.File))
	if err != nil {
		return nil, Tensor{}, fmt.Errorf("open table %q: %w", t.Name, err)
	}
	kind, width := t.Stored()
	x, err := file.Want(t.Tensor, kind, t.Rows, width)
	if err != nil {
		_ = file.Close()
		return nil, Tensor{}, fmt.Errorf("open table %q: %w", t.Name, err)
	}
	return file, x, nil
}

// OpenWeights opens the weights file and returns one tensor per program input; that of a packed array has no Data.
// A program without weights gives a nil file. The caller closes the file.
func (b *Bundle) OpenWeights() (*Tensors, []Tensor, error) {
	p := &b.Manifest.Program
	list := make([]Tensor, len(p.Inputs))
	if p.Weights == "" {
		return nil, list, nil
	}
	file, err := OpenTensors(b.Path(p.Weights))
	if err != nil {
		return nil, nil, fmt.Errorf("open weights: %w", err)
	}
	for i, in := range p.Inputs {
		if in.Packed != nil {
			continue
		}
		x, ok := file.Tensor(in.Weight)
		if !ok {
			_ = file.Close()
			return nil, nil, fmt.Errorf("open weights: program.inputs[%d]: tensor %q of %q: got none", i, in.Weight, p.Weights)
		}
		list[i] = x
	}
	return file, list, nil
}

// OpenGolden opens the golden requests. The caller closes the file. A bundle without them gives an error that wraps os.ErrNotExist.
func (b *Bundle) OpenGolden() (*Tensors, error) {
	if _, ok := b.Manifest.Digests[GoldenFile]; !ok {
		return nil, fmt.Errorf("open golden: %q has no digest in the manifest: %w", GoldenFile, os.ErrNotExist)
	}
	return OpenTensors(b.Path(GoldenFile))
}

// CheckTensors opens every safetensors file that the manifest refers to and checks names, types and shapes, not content.
// The error joins what is wrong with each file.
func (b *Bundle) CheckTensors() error {
	var errs []error
	for i := range b.Manifest.Tables {
		file, _, err := b.OpenTable(i)
		if err == nil {
			err = file.Close()
		}
		errs = append(errs, err)
	}
	file, _, err := b.OpenWeights()
	if err == nil && file != nil {
		err = file.Close()
	}
	errs = append(errs, err, b.checkGolden())
	return errors.Join(errs...)
}

// checkGolden checks that each output has its expectation, of the right shape.
func (b *Bundle) checkGolden() error {
	if _, ok := b.Manifest.Digests[GoldenFile]; !ok {
		return nil // golden requests are optional
	}
	file, err := b.OpenGolden()
	if err != nil {
		return err
	}
	defer file.Close()
	var errs []error
	rows := int64(-1)
	for _, o := range b.Manifest.Outputs {
		x, ok := file.Tensor(ExpectPrefix + o.Name)
		if ok && len(x.Shape) > 0 && rows < 0 {
			rows = x.Shape[0]
		}
		shape := []int64{rows}
		if o.Width > 0 {
			shape = append(shape, int64(o.Width))
		}
		_, err := file.Want(ExpectPrefix+o.Name, dtype.Float32, shape...)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// ProgramText returns the program for a batch of the given size: the file made for it, or the file for any batch with
// BatchToken replaced.
func (b *Bundle) ProgramText(batch int) ([]byte, error) {
	if batch < 1 || batch > maxBatchLimit {
		return nil, fmt.Errorf("read program: batch: got %d, want 1 to %d", batch, maxBatchLimit)
	}
	general := ""
	for _, f := range b.Manifest.Program.Files {
		switch f.Batch {
		case batch:
			return os.ReadFile(b.Path(f.File))
		case 0:
			general = f.File
		}
	}
	if general == "" {
		return nil, fmt.Errorf("read program: got no file for batch %d", batch)
	}
	text, err := os.ReadFile(b.Path(general))
	if err != nil {
		return nil, fmt.Errorf("read program: %w", err)
	}
	if !bytes.Contains(text, []byte(BatchToken)) {
		return nil, fmt.Errorf("read program %q: got no %q in it, want one for each use of the batch size", general, BatchToken)
	}
	return bytes.ReplaceAll(text, []byte(BatchToken), strconv.AppendInt(nil, int64(batch), 10)), nil
}
