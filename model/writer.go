package model

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"sync"
)

// Writer builds a bundle in a hidden directory beside its place and renames it there when it is complete (I3). Digests are
// taken of the bytes on their way to the files, so nothing is read again.
//
// Files are not synced to disk one by one: after a power failure a bundle may lack data, which its digests tell.
type Writer struct {
	dir  string // where the bundle is to appear
	temp string // where it is now; "" once committed or aborted

	mu      sync.Mutex
	digests map[string]string
}

// Create starts a bundle that will appear as dir. Its parent directory is made if it is missing. The error wraps os.ErrExist
// if there is something at dir. The caller ends with Commit, or with Abort, which may be deferred.
func Create(dir string) (*Writer, error) {
	dir = filepath.Clean(dir)
	if _, err := os.Lstat(dir); err == nil {
		return nil, fmt.Errorf("create bundle %q: %w", dir, os.ErrExist)
	}
	parent := filepath.Dir(dir)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return nil, fmt.Errorf("create bundle %q: %w", dir, err)
	}
	temp, err := os.MkdirTemp(parent, "."+filepath.Base(dir)+".tmp-")
	if err != nil {
		return nil, fmt.Errorf("create bundle %q: %w", dir, err)
	}
	return &Writer{dir: dir, temp: temp, digests: map[string]string{}}, nil
}

// Unfinished returns the files written so far as a bundle described by m, to read them back before Commit.
// It is valid until Commit or Abort.
func (w *Writer) Unfinished(m *Manifest) *Bundle { return &Bundle{Dir: w.temp, Manifest: m} }

// Add writes the file rel with the bytes that write puts out. A canceled ctx ends it at the next write.
// It may be called from several goroutines for different files.
func (w *Writer) Add(ctx context.Context, rel string, write func(io.Writer) error) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("write %q: %w", rel, err)
		}
	}()
	if badPath(rel) != "" {
		return fmt.Errorf("want %s", wantPath)
	}
	name := filepath.Join(w.temp, filepath.FromSlash(rel))
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	h := sha256.New()
	buf := bufio.NewWriterSize(io.MultiWriter(ctxWriter{ctx}, h, f), 1<<18)
	if err := errors.Join(write(buf), buf.Flush(), f.Close()); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.digests[rel] = digestString(h)
	return nil
}

// AddTensors writes a safetensors file.
func (w *Writer) AddTensors(ctx context.Context, rel string, ts []NamedTensor) error {
	return w.Add(ctx, rel, func(out io.Writer) error { return EncodeTensors(out, ts) })
}

// AddText writes a file with the given content.
func (w *Writer) AddText(ctx context.Context, rel, text string) error {
	return w.Add(ctx, rel, func(out io.Writer) error {
		_, err := io.WriteString(out, text)
		return err
	})
}

// Commit fills in m.Digests, validates and writes the manifest, and renames the bundle to its place.
func (w *Writer) Commit(m *Manifest) (*Bundle, error) {
	w.mu.Lock()
	m.Digests = maps.Clone(w.digests)
	w.mu.Unlock()
	text, err := m.Encode()
	if err != nil {
		return nil, fmt.Errorf("commit bundle %q: %w", w.dir, err)
	}
	b := &Bundle{Dir: w.temp, Manifest: m}
	if err := b.CheckTensors(); err != nil {
		return nil, fmt.Errorf("commit bundle %q: %w", w.dir, err)
	}
	if err := os.WriteFile(b.Path(ManifestFile), text, 0o644); err != nil {
		return nil, fmt.Errorf("commit bundle %q: %w", w.dir, err)
	}
	if err := os.Chmod(w.temp, 0o755); err != nil { // MkdirTemp makes it private
		return nil, fmt.Errorf("commit bundle %q: %w", w.dir, err)
	}
	if err := os.Rename(w.temp, w.dir); err != nil {
		return nil, fmt.Errorf("commit bundle %q: %w", w.dir, err)
	}
	w.temp = ""
	b.Dir = w.dir
	return b, nil
}

// Abort removes what was written. After Commit it does nothing.
func (w *Writer) Abort() error {
	if w.temp == "" {
		return nil
	}
	temp := w.temp
	w.temp = ""
	if err := os.RemoveAll(temp); err != nil {
		return fmt.Errorf("abort bundle %q: %w", w.dir, err)
	}
	return nil
}

// ctxWriter takes all bytes and fails once the context is done.
type ctxWriter struct{ ctx context.Context }

func (c ctxWriter) Write(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return len(p), nil
}
