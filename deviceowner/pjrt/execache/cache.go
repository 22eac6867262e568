package execache

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// DefaultBytes bounds a folder for which nothing else is said.
const DefaultBytes = 1 << 30

// Cache is a folder of entries.
type Cache struct {
	dir   string
	root  *os.Root // stays on the folder that was checked, whatever becomes of its name
	bytes int64
	log   *slog.Logger
}

// Open opens a folder, making it if need be, and drops entries in whose trial a process died. bytes bounds it; 0 means DefaultBytes.
func Open(dir string, bytes int64, log *slog.Logger) (*Cache, error) {
	abs, err := filepath.Abs(dir)
	if err == nil {
		err = os.MkdirAll(abs, 0o700)
	}
	if err != nil {
		return nil, fmt.Errorf("open executable cache: %w", err)
	}
	root, err := os.OpenRoot(abs)
	if err != nil {
		return nil, fmt.Errorf("open executable cache: %w", err)
	}
	info, err := root.Stat(".")
	if err == nil {
		err = private(info)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open executable cache %q: %w", abs, err), root.Close())
	}
	if bytes <= 0 {
		bytes = DefaultBytes
	}
	c := &Cache{dir: abs, root: root, bytes: bytes, log: log}
	c.dropDead()
	return c, nil
}

// Dir returns the folder's absolute path.
func (c *Cache) Dir() string { return c.dir }

// Close ends the use of the folder. Trials must have ended.
func (c *Cache) Close() error { return c.root.Close() }

// private reports why what is stored there could be the work of another user.
func private(info fs.FileInfo) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return errors.New("its owner is not known")
	}
	if want := os.Geteuid(); int(st.Uid) != want {
		return fmt.Errorf("got owner %d, want %d", st.Uid, want)
	}
	if mode := info.Mode().Perm(); mode&0o022 != 0 {
		return fmt.Errorf("got mode %v, want one that lets nobody else write", mode)
	}
	return nil
}

// read returns the content of a file that only this user can have written.
func (c *Cache) read(name string, limit int64) ([]byte, error) {
	f, err := c.root.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: got %s, want a file", ErrUnusable, info.Mode().Type())
	}
	if err := private(info); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnusable, err)
	}
	if info.Size() > limit {
		return nil, fmt.Errorf("%w: got %d bytes, want at most %d", ErrUnusable, info.Size(), limit)
	}
	b := make([]byte, info.Size())
	if _, err := io.ReadFull(f, b); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnusable, err)
	}
	return b, nil
}

// write makes a file whole or not at all.
func (c *Cache) write(name string, parts ...[]byte) (err error) {
	temporary := fmt.Sprintf("%s.%s.tmp", name, unique())
	f, err := c.root.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	for _, p := range parts {
		if err == nil {
			_, err = f.Write(p)
		}
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = c.root.Rename(temporary, name)
	}
	if err != nil {
		_ = c.root.Remove(temporary) // pruning removes it later if this fails
	}
	return err
}

// Load reads the entry of a key. Whatever is then done with its image belongs into a trial.
func (c *Cache) Load(model string, k Key) (*Entry, error) {
	name := entryName(model, k)
	b, err := c.read(name, fixedBytes+maxKeyBytes+32+maxImageBytes)
	if err != nil {
		return nil, fmt.Errorf("load executable %q: %w", name, err)
	}
	got, image, err := decode(b)
	if err == nil && got != k {
		err = fmt.Errorf("%w: is of another key", ErrUnusable)
	}
	if err != nil {
		return nil, fmt.Errorf("load executable %q: %w", name, err)
	}
	return &Entry{Image: image, cache: c, name: name}, nil
}

// Store writes the entry of a key and then prunes the folder.
func (c *Cache) Store(model string, k Key, image []byte) error {
	if len(image) == 0 || len(image) > maxImageBytes {
		return fmt.Errorf("store executable: got an image of %d bytes, want 1 to %d", len(image), maxImageBytes)
	}
	name := entryName(model, k)
	if err := c.write(name, appendHeader(nil, k, image), image); err != nil {
		return fmt.Errorf("store executable %q: %w", name, err)
	}
	c.prune(time.Now())
	return nil
}
