package execache

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Filler adds entries to a shelf. They are listed, all at once, by Commit. A file's name has a part of its digest in it, so a
// file that is listed is never written again.
type Filler struct {
	dir   string
	root  *os.Root
	lock  *os.File // of the folder, so that there is one filler at a time
	fresh bool
	items []Item // listed so far
	added []Item
}

// Fill opens the shelf in a folder, making it if need be, to add entries. With fresh, Commit leaves out what the list holds so
// far, which may then be damaged too.
func Fill(dir string, fresh bool) (_ *Filler, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("fill executables %q: %w", dir, err)
		}
	}()
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	root, err := openFolder(dir, trusted)
	if err != nil {
		return nil, err
	}
	f := &Filler{dir: dir, root: root, fresh: fresh}
	if err := f.begin(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (f *Filler) begin() (err error) {
	if f.lock, err = f.root.Open("."); err != nil {
		return err
	}
	if err := unix.Flock(int(f.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return fmt.Errorf("another process fills it: %w", err)
	}
	if f.items, err = readList(f.root); f.fresh || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Add writes an entry. Nobody sees it before Commit.
func (f *Filler) Add(model, plugin, target string, k Key, image []byte) (Item, error) {
	if len(image) == 0 || len(image) > maxImageBytes {
		return Item{}, fmt.Errorf("store executable of %d rows: got an image of %d bytes, want 1 to %d", k.Bucket, len(image), maxImageBytes)
	}
	header := appendHeader(nil, k, image)
	h := sha256.New()
	h.Write(header)
	h.Write(image)
	digest := hex.EncodeToString(h.Sum(nil))
	x := Item{
		File: entryFile(model, k.Bucket, digest[:32]), Bytes: int64(len(header) + len(image)), SHA256: digest,
		Plugin: plugin, Target: target, Key: k,
	}
	if err := writeFile(f.root, x.File, 0o644, header, image); err != nil {
		return Item{}, fmt.Errorf("store executable %q: %w", filepath.Join(f.dir, x.File), err)
	}
	f.added = append(f.added, x)
	return x, nil
}

// Kept is what Commit left in the list beside what was added.
type Kept struct {
	Buckets []int // batch sizes for the same device, plugin and options, ascending
	Others  int   // entries for others
}

// Commit lists what was added, in place of what was there for the same device, plugin, options and batch size, and removes files
// that the list does not name. Other batch sizes for the same stay if current says that their program is the one of today; nil:
// none is. Entries for other devices, plugins and options stay. A fresh filler keeps nothing.
func (f *Filler) Commit(current func(Key) bool) (kept Kept, err error) {
	target := func(k Key) Key {
		k.Program, k.Bucket = "", 0
		return k
	}
	targets, replaced := map[Key]bool{}, map[Key]bool{}
	for _, x := range f.added {
		k := target(x.Key)
		targets[k] = true
		k.Bucket = x.Key.Bucket
		replaced[k] = true
	}
	var items []Item
	for _, x := range f.items {
		k := target(x.Key)
		same := targets[k]
		k.Bucket = x.Key.Bucket
		switch {
		case f.fresh || replaced[k] || same && (current == nil || !current(x.Key)):
			continue
		case same:
			kept.Buckets = append(kept.Buckets, x.Key.Bucket)
		default:
			kept.Others++
		}
		items = append(items, x)
	}
	slices.Sort(kept.Buckets)
	l := list{listVersion, append(items, f.added...)}
	text, _ := json.MarshalIndent(l, "", "  ") // strings and numbers always have a form
	if err := writeFile(f.root, ListFile, 0o644, text, []byte("\n")); err != nil {
		return Kept{}, fmt.Errorf("list executables %q: %w", f.dir, err)
	}
	f.items, f.added, f.fresh = l.Executables, nil, false
	f.tidy()
	return kept, nil
}

// tidy removes entries that are not listed, and what killed fillers left: nobody else is one now.
func (f *Filler) tidy() {
	d, err := f.root.Open(".")
	if err != nil {
		return
	}
	defer d.Close()
	names, _ := d.Readdirnames(-1) // what was read before an error is enough to tidy up
	for _, n := range names {
		left := strings.HasSuffix(n, temporarySuffix) && (ownPattern.MatchString(n) || strings.HasPrefix(n, ListFile+"."))
		if left || entryPattern.MatchString(n) && !f.lists(n) {
			_ = f.root.Remove(n) // it is only in the way
		}
	}
}

func (f *Filler) lists(name string) bool {
	return slices.ContainsFunc(f.items, func(x Item) bool { return x.File == name })
}

// Close gives the folder back. What was added and not committed is removed, and the folder too if nothing is left.
func (f *Filler) Close() error {
	var errs []error
	for _, x := range f.added {
		if !f.lists(x.File) {
			errs = append(errs, f.root.Remove(x.File))
		}
	}
	if f.lock != nil {
		errs = append(errs, f.lock.Close())
	}
	errs = append(errs, f.root.Close())
	_ = os.Remove(f.dir) // only an empty one can be removed
	return errors.Join(errs...)
}
