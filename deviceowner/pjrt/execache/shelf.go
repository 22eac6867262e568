package execache

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// ListFile is the list of a shelf. It is written last.
const ListFile = "index.json"

const (
	listVersion  = 1
	maxListBytes = 16 << 20
	maxFileBytes = fixedBytes + maxKeyBytes + sha256.Size + maxImageBytes
)

// Item is a line of a shelf's list.
type Item struct {
	File   string `json:"file"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"` // hex, of the whole file
	Plugin string `json:"plugin"` // name of the plugin's file, for people
	Target string `json:"target"` // the topology as whoever compiled named it, for people; empty: the device of that machine
	Key    Key    `json:"key"`
}

// list is the file.
type list struct {
	FormatVersion int    `json:"format_version"`
	Executables   []Item `json:"executables"`
}

// Shelf is a folder of entries that others have filled, such as that of a model bundle. It is only read.
type Shelf struct {
	dir   string
	root  *os.Root
	items []Item
}

// OpenShelf reads the list of a shelf. The error wraps fs.ErrNotExist if there is none, and ErrUnusable if its list must not be
// trusted.
func OpenShelf(dir string) (*Shelf, error) {
	root, err := openFolder(dir, trusted)
	if err != nil {
		return nil, fmt.Errorf("open executables: %w", err)
	}
	items, err := readList(root)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open executables %q: %w", filepath.Join(dir, ListFile), err), root.Close())
	}
	return &Shelf{dir: dir, root: root, items: items}, nil
}

func readList(root *os.Root) ([]Item, error) {
	text, err := readFile(root, ListFile, maxListBytes, trusted)
	if err != nil {
		return nil, err
	}
	bad := func(format string, args ...any) ([]Item, error) {
		return nil, fmt.Errorf("%w: "+format, append([]any{ErrUnusable}, args...)...)
	}
	var l list
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&l); err != nil {
		return bad("%v", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return bad("got something behind the list")
	}
	if l.FormatVersion != listVersion {
		return bad("got format version %d, want %d", l.FormatVersion, listVersion)
	}
	keys := map[Key]bool{}
	for i, x := range l.Executables {
		if !entryPattern.MatchString(x.File) {
			return bad("executables[%d].file: got %q, want <model>.b<rows>.<32 hex digits>%s", i, x.File, entrySuffix)
		}
		if keys[x.Key] {
			return bad("executables[%d].key: is there twice", i)
		}
		keys[x.Key] = true
	}
	return l.Executables, nil
}

// Dir returns the folder.
func (s *Shelf) Dir() string { return s.dir }

// Items are the lines of the list.
func (s *Shelf) Items() []Item { return s.items }

// Close ends the use of the folder.
func (s *Shelf) Close() error { return s.root.Close() }

// Load returns the image with a key and its line of the list. The error wraps fs.ErrNotExist if no line has that key, and names
// the file if it is missing, damaged or not as the list says.
func (s *Shelf) Load(k Key) (Item, []byte, error) {
	for _, x := range s.items {
		if x.Key == k {
			image, err := s.Read(x)
			return x, image, err
		}
	}
	return Item{}, nil, fmt.Errorf("load executable: %w", fs.ErrNotExist)
}

// Read returns the image of a line, or what is wrong with its file (ErrUnusable).
func (s *Shelf) Read(x Item) ([]byte, error) {
	b, err := readFile(s.root, x.File, maxFileBytes, trusted)
	if errors.Is(err, fs.ErrNotExist) { // it is the list that is wrong
		err = fmt.Errorf("%w: is missing", ErrUnusable)
	}
	var k Key
	var image []byte
	if err == nil {
		sum := sha256.Sum256(b)
		if got := hex.EncodeToString(sum[:]); int64(len(b)) != x.Bytes || got != x.SHA256 {
			err = fmt.Errorf("%w: got %d bytes with SHA-256 %s, want %d with %s", ErrUnusable, len(b), got, x.Bytes, x.SHA256)
		} else if k, image, err = decode(b); err == nil && k != x.Key {
			err = fmt.Errorf("%w: is of another key than in the list", ErrUnusable)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("load executable %q: %w", filepath.Join(s.dir, x.File), err)
	}
	return image, nil
}

// Nearest returns the line of the same platform and batch size that differs least from all of the given keys, and how.
func (s *Shelf) Nearest(keys ...Key) (nearest Item, differences []string) {
	for _, x := range s.items {
		for _, k := range keys {
			if x.Key.Bucket != k.Bucket || x.Key.Platform != k.Platform {
				continue
			}
			if d := x.Key.Differences(k); differences == nil || len(d) < len(differences) {
				nearest, differences = x, d
			}
		}
	}
	return nearest, differences
}
