package execache

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// fill adds an entry for each key, whose image is its program. Programs "a" and "b" are those of today.
func fill(t *testing.T, dir string, fresh bool, keys ...Key) (kept Kept) {
	t.Helper()
	f, err := Fill(dir, fresh)
	if err != nil {
		t.Fatal(err)
	}
	defer closeIt(t, f)
	for _, k := range keys {
		if _, err := f.Add("model", "plugin.so", "v6e:1x1", k, []byte(k.Program)); err != nil {
			t.Fatal(err)
		}
	}
	if kept, err = f.Commit(func(k Key) bool { return k.Program == "a" || k.Program == "b" }); err != nil {
		t.Fatal(err)
	}
	return kept
}

func closeIt(t *testing.T, c interface{ Close() error }) {
	t.Helper()
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

func openTestShelf(t *testing.T, dir string) *Shelf {
	t.Helper()
	s, err := OpenShelf(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeIt(t, s) })
	return s
}

func keyOf(program string, bucket int) Key {
	k := testKey()
	k.Program, k.Bucket = program, bucket
	return k
}

func shelfDir(t *testing.T) string { return filepath.Join(t.TempDir(), "executables") }

func TestI1ShelfGivesTheImageOfTheKeyAskedFor(t *testing.T) {
	dir := shelfDir(t)
	if _, err := OpenShelf(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no folder: got %v, want fs.ErrNotExist", err)
	}
	a, b := keyOf("a", 1), keyOf("b", 2)
	fill(t, dir, false, a, b)
	s := openTestShelf(t, dir)
	for _, k := range []Key{a, b} {
		x, image, err := s.Load(k)
		if err != nil || string(image) != k.Program || x.Key != k || x.Plugin != "plugin.so" || x.Target != "v6e:1x1" {
			t.Errorf("got %+v, %q, %v", x, image, err)
		}
	}
	if _, _, err := s.Load(keyOf("a", 2)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("another key: got %v, want fs.ErrNotExist", err)
	}
	if info, err := os.Stat(filepath.Join(dir, s.Items()[0].File)); err != nil || info.Mode().Perm()&0o022 != 0 {
		t.Errorf("got mode %v (%v), want one that lets nobody else write", info.Mode(), err)
	}
}

func TestI1DamagedFilesOfAShelfAreNamed(t *testing.T) {
	for name, damage := range map[string]func(path string, b []byte) error{
		"one bit": func(path string, b []byte) error { b[len(b)-1] ^= 1; return os.WriteFile(path, b, 0o644) },
		"header":  func(path string, b []byte) error { b[9] ^= 1; return os.WriteFile(path, b, 0o644) },
		"cut":     func(path string, b []byte) error { return os.WriteFile(path, b[:len(b)-1], 0o644) },
		"longer":  func(path string, b []byte) error { return os.WriteFile(path, append(b, 0), 0o644) },
		"empty":   func(path string, _ []byte) error { return os.WriteFile(path, nil, 0o644) },
		"missing": func(path string, _ []byte) error { return os.Remove(path) },
		"folder":  func(path string, _ []byte) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o755)) },
		"others":  func(path string, _ []byte) error { return os.Chmod(path, 0o666) },
		"another's": func(path string, _ []byte) error {
			return os.WriteFile(path, entryBytes(keyOf("else", 1), []byte("a")), 0o644)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := shelfDir(t)
			a, b := keyOf("a", 1), keyOf("b", 2)
			fill(t, dir, false, a, b)
			s := openTestShelf(t, dir)
			path := filepath.Join(dir, s.Items()[0].File)
			text, err := os.ReadFile(path)
			if err == nil {
				err = damage(path, text)
			}
			if err != nil {
				t.Fatal(err)
			}
			if _, image, err := s.Load(a); !errors.Is(err, ErrUnusable) || errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), path) || image != nil {
				t.Errorf("got %q, %v, want ErrUnusable and the file's name", image, err)
			}
			if _, _, err := s.Load(b); err != nil {
				t.Errorf("the other one: got %v", err)
			}
		})
	}
}

// An entry whose digest in the list was changed with it is still of the key that stands in it.
func TestI1ListCannotRenameAnEntry(t *testing.T) {
	dir := shelfDir(t)
	fill(t, dir, false, keyOf("a", 1))
	rewriteList(t, dir, func(l *list) { l.Executables[0].Key.Program = "b" })
	if _, _, err := openTestShelf(t, dir).Load(keyOf("b", 1)); !errors.Is(err, ErrUnusable) {
		t.Errorf("got %v, want ErrUnusable", err)
	}
}

func rewriteList(t *testing.T, dir string, change func(*list)) {
	t.Helper()
	path := filepath.Join(dir, ListFile)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var l list
	if err := json.Unmarshal(text, &l); err != nil {
		t.Fatal(err)
	}
	change(&l)
	if text, err = json.Marshal(l); err == nil {
		err = os.WriteFile(path, text, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestListsThatCannotBeTrustedAreRefused(t *testing.T) {
	for name, spoil := range map[string]func(path string, text []byte) error{
		"no JSON":     func(path string, _ []byte) error { return os.WriteFile(path, []byte("list"), 0o644) },
		"more behind": func(path string, text []byte) error { return os.WriteFile(path, append(text, "{}"...), 0o644) },
		"unknown field": func(path string, text []byte) error {
			return os.WriteFile(path, bytes.Replace(text, []byte(`"file"`), []byte(`"path"`), 1), 0o644)
		},
		"version": func(path string, text []byte) error {
			return os.WriteFile(path, bytes.Replace(text, []byte(`: 1`), []byte(`: 2`), 1), 0o644)
		},
		"outside": func(path string, text []byte) error {
			return os.WriteFile(path, bytes.Replace(text, []byte(`"model.b1`), []byte(`"../model.b1`), 1), 0o644)
		},
		"others write": func(path string, _ []byte) error { return os.Chmod(path, 0o666) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := shelfDir(t)
			fill(t, dir, false, keyOf("a", 1))
			path := filepath.Join(dir, ListFile)
			text, err := os.ReadFile(path)
			if err == nil {
				err = spoil(path, text)
			}
			if err != nil {
				t.Fatal(err)
			}
			if _, err := OpenShelf(dir); !errors.Is(err, ErrUnusable) || !strings.Contains(err.Error(), path) {
				t.Errorf("got %v, want ErrUnusable and the list's name", err)
			}
			if _, err := Fill(dir, false); !errors.Is(err, ErrUnusable) {
				t.Errorf("fill: got %v, want ErrUnusable", err)
			}
			if kept := fill(t, dir, true, keyOf("b", 2)); (kept.Others != 0 || kept.Buckets != nil) && name != "others write" {
				t.Errorf("fresh: got %+v kept", kept)
			}
			if s := openTestShelf(t, dir); len(s.Items()) != 1 {
				t.Errorf("fresh: got %d entries, want the new one", len(s.Items()))
			}
		})
	}
	dir := shelfDir(t)
	fill(t, dir, false, keyOf("a", 1))
	rewriteList(t, dir, func(l *list) { l.Executables = append(l.Executables, l.Executables[0]) })
	if _, err := OpenShelf(dir); !errors.Is(err, ErrUnusable) {
		t.Errorf("one key twice: got %v, want ErrUnusable", err)
	}
}

func TestI2ShelvesOfOthersAreRefused(t *testing.T) {
	dir := shelfDir(t)
	fill(t, dir, false, keyOf("a", 1))
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenShelf(dir); err == nil || !strings.Contains(err.Error(), "nobody else write") {
		t.Errorf("got %v, want a refusal", err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() != 0 {
		t.Skip("giving files away needs root")
	}
	path := filepath.Join(dir, openTestShelf(t, dir).Items()[0].File)
	if err := os.Chown(path, 12345, -1); err != nil {
		t.Fatal(err)
	}
	if _, _, err := openTestShelf(t, dir).Load(keyOf("a", 1)); !errors.Is(err, ErrUnusable) || !strings.Contains(err.Error(), "got owner 12345, want 0") {
		t.Errorf("got %v, want a refusal", err)
	}
}

func TestCommitReplacesWhatIsOfTheSameTargetAndBatchSize(t *testing.T) {
	dir := shelfDir(t)
	elsewhere := keyOf("a", 1)
	elsewhere.Device = "other kind"
	fill(t, dir, false, keyOf("a", 1), keyOf("a", 2), keyOf("a", 3), keyOf("gone", 4), elsewhere)
	kept := fill(t, dir, false, keyOf("b", 1))
	if kept.Others != 1 || !slices.Equal(kept.Buckets, []int{2, 3}) {
		t.Errorf("got %+v kept, want batch sizes 2 and 3, and one entry for others", kept)
	}
	s := openTestShelf(t, dir)
	for k, want := range map[Key]bool{
		elsewhere: true, keyOf("b", 1): true, keyOf("a", 1): false, keyOf("a", 2): true, keyOf("a", 3): true, keyOf("gone", 4): false,
	} {
		if _, _, err := s.Load(k); (err == nil) != want {
			t.Errorf("%s, %d rows: got %v, want there %v", k.Program, k.Bucket, err, want)
		}
	}
	if got := files(t, dir); len(got) != 5 {
		t.Errorf("got files %v, want four entries and the list", got)
	}
	fill(t, dir, true, keyOf("b", 1))
	if got := files(t, dir); len(got) != 2 {
		t.Errorf("fresh: got files %v, want one entry and the list", got)
	}
}

func TestI3NothingIsListedBeforeCommit(t *testing.T) {
	dir := shelfDir(t)
	f, err := Fill(dir, false)
	if err != nil {
		t.Fatal(err)
	}
	add := func(f *Filler, k Key) {
		t.Helper()
		if _, err := f.Add("model", "plugin.so", "", k, []byte(k.Program)); err != nil {
			t.Fatal(err)
		}
	}
	add(f, keyOf("a", 1))
	if _, err := OpenShelf(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("before commit: got %v, want no shelf", err)
	}
	if _, err := Fill(dir, false); err == nil || !strings.Contains(err.Error(), "another process fills it") {
		t.Errorf("a second filler: got %v", err)
	}
	closeIt(t, f)
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after a close without commit: got %v, want no folder", err)
	}

	fill(t, dir, false, keyOf("a", 1))
	f, err = Fill(dir, true) // which is to replace all, and fails
	if err != nil {
		t.Fatal(err)
	}
	add(f, keyOf("a", 1)) // the same file as the one that is listed
	add(f, keyOf("b", 2))
	if len(openTestShelf(t, dir).Items()) != 1 {
		t.Error("got an entry listed before commit")
	}
	closeIt(t, f)
	if _, _, err := openTestShelf(t, dir).Load(keyOf("a", 1)); err != nil || len(files(t, dir)) != 2 {
		t.Errorf("after a close without commit: got %v and files %v, want what was there", err, files(t, dir))
	}

	// What a killed filler leaves.
	for _, left := range []string{"model.b1.00000000000000000000000000000000.exe", "model.b1.00000000000000000000000000000000.exe.1-2-3.tmp", ListFile + ".1-2-3.tmp"} {
		if err := os.WriteFile(filepath.Join(dir, left), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "README"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	fill(t, dir, false, keyOf("a", 1))
	if got := files(t, dir); len(got) != 3 {
		t.Errorf("got files %v, want an entry, the list and a foreign file", got)
	}
}

func TestI4ForeignImageInWhoseTrialAProcessDiedIsBad(t *testing.T) {
	dir := t.TempDir()
	k := testKey()
	begin := func(c *Cache) *Trial {
		t.Helper()
		trial, err := c.Foreign("model", k, []byte("image")).Try()
		if err != nil {
			t.Fatal(err)
		}
		return trial
	}
	c := openTest(t, dir)
	begin(c).Accept()
	if c.Bad("model", k) || len(files(t, dir)) != 0 {
		t.Errorf("after a good trial: got files %v", files(t, dir))
	}
	died := begin(c)
	if err := died.file.Close(); err != nil { // what the kernel does when the process ends
		t.Fatal(err)
	}
	next := openTest(t, dir)
	if !next.Bad("model", k) || next.Bad("model", keyOf("other", 64)) {
		t.Error("after a death: want this key to be bad, and no other")
	}
	if _, err := next.Load("model", k); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want no entry", err)
	}
	store(t, next, k, "compiled here") // and prunes
	if e, err := next.Load("model", k); err != nil || string(e.Image) != "compiled here" || !next.Bad("model", k) {
		t.Errorf("got %v, %v", e, err)
	}
	begin(openTest(t, t.TempDir())).Abandon()

	other := openTest(t, t.TempDir())
	begin(other).Reject()
	if !other.Bad("model", k) {
		t.Error("after a rejection: want it to be bad")
	}
}

func TestDifferencesNameEveryFieldOfTheKey(t *testing.T) {
	k := testKey()
	if got := k.Differences(k); len(got) != 0 || got == nil {
		t.Errorf("equal keys: got %q", got)
	}
	for i := range reflect.TypeFor[Key]().NumField() {
		other := k
		switch f := reflect.ValueOf(&other).Elem().Field(i); f.Kind() {
		case reflect.String:
			f.SetString(f.String() + "x")
		case reflect.Int:
			f.SetInt(f.Int() + 1)
		}
		got := other.Differences(k)
		if len(got) != 1 || !strings.Contains(got[0], ": got ") {
			t.Errorf("field %s: got %q", reflect.TypeFor[Key]().Field(i).Name, got)
		}
	}
}

func TestDifferencesKeepTextsOfPluginsOnOneLine(t *testing.T) {
	k, other := testKey(), testKey()
	other.Version = "libtpu\nbuilt " + strings.Repeat("on ", 100)
	if got := other.Differences(k); len(got) != 1 || strings.Contains(got[0], "\n") || len(got[0]) > 200 {
		t.Errorf("got %q", got)
	}
}

func TestNearestIsOfTheSamePlatformAndBatchSize(t *testing.T) {
	dir := shelfDir(t)
	far, near, other := keyOf("a", 1), keyOf("b", 1), keyOf("c", 1)
	far.Plugin, far.Host, near.Plugin, other.Platform = "old", "else", "new", "tpu"
	fill(t, dir, false, far, near, other)
	s := openTestShelf(t, dir)
	x, differences := s.Nearest(keyOf("b", 1))
	if x.Key != near || len(differences) != 1 || differences[0] != "plugin file: got new, want p" {
		t.Errorf("got %+v, %q", x.Key, differences)
	}
	if _, differences := s.Nearest(keyOf("b", 2)); differences != nil {
		t.Errorf("another batch size: got %q, want none", differences)
	}
}

func TestFileDigestOfTheWholeFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "plugin.so")
	if err := os.WriteFile(path, []byte("one"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := FileDigest(path); err != nil || got != "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed" {
		t.Errorf("got %s, %v", got, err)
	}
	if _, err := FileDigest(path + ".none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func FuzzList(f *testing.F) {
	f.Add([]byte(`{"format_version":1,"executables":[{"file":"m.b1.00000000000000000000000000000000.exe","bytes":1,"sha256":"","plugin":"","target":"","key":{"bucket":1}}]}`))
	f.Add([]byte(`{"format_version":1,"executables":null}`))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := os.WriteFile(filepath.Join(dir, ListFile), text, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := OpenShelf(dir)
		if err != nil {
			if !errors.Is(err, ErrUnusable) {
				t.Errorf("got %v, want ErrUnusable", err)
			}
			return
		}
		defer closeIt(t, s)
		for _, x := range s.Items() {
			if _, err := s.Read(x); err == nil || strings.ContainsRune(x.File, '/') {
				t.Errorf("%+v: got %v", x, err)
			}
		}
	})
}
