package execache

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"
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
	root, err := openFolder(abs, private)
	if err != nil {
		return nil, fmt.Errorf("open executable cache: %w", err)
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

// read returns the content of a file that only this user can have written.
func (c *Cache) read(name string, limit int64) ([]byte, error) {
	return readFile(c.root, name, limit, private)
}

// write makes a file of the cache whole or not at all.
func (c *Cache) write(name string, parts ...[]byte) error {
	return writeFile(c.root, name, 0o600, parts...)
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

// Foreign is an image from elsewhere, such as a shelf, in the form of an entry of this cache, so that it can be tried. It is not
// stored: a trial that ends badly makes it Bad.
func (c *Cache) Foreign(model string, k Key, image []byte) *Entry {
	return &Entry{Image: image, cache: c, name: entryName(model, k)}
}

// Bad reports whether a trial of a foreign image with this key ended badly here.
func (c *Cache) Bad(model string, k Key) bool {
	_, err := c.root.Lstat(entryName(model, k) + badSuffix)
	return err == nil
}

// drop removes an entry that must not be read again. Of an image that is not the cache's own, a mark is all that can be made.
func (c *Cache) drop(name string) {
	err := c.root.Remove(name)
	if !errors.Is(err, fs.ErrNotExist) {
		return
	}
	if f, err := c.root.OpenFile(name+badSuffix, os.O_WRONLY|os.O_CREATE, 0o600); err == nil {
		_ = f.Close() // it is empty
	} else {
		c.log.Warn("executable cache cannot be written", "dir", c.dir, "error", err)
	}
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
