package execache

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func openTest(t *testing.T, dir string) *Cache {
	t.Helper()
	c, err := Open(dir, 0, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func store(t *testing.T, c *Cache, k Key, image string) string {
	t.Helper()
	if err := c.Store("model", k, []byte(image)); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(c.Dir(), entryName("model", k))
}

// files lists what is in the folder.
func files(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestI1OnlyTheKeyAskedForIsLoaded(t *testing.T) {
	c := openTest(t, t.TempDir())
	k := testKey()
	if _, err := c.Load("model", k); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("empty folder: got %v, want fs.ErrNotExist", err)
	}
	path := store(t, c, k, "image")
	e, err := c.Load("model", k)
	if err != nil || string(e.Image) != "image" {
		t.Fatalf("got %v, %v", e, err)
	}
	// Another key's entry under this key's name, as if hashes had met.
	other := k
	other.Plugin = "q"
	if err := os.Rename(store(t, c, other, "other"), path); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Load("model", k); !errors.Is(err, ErrUnusable) {
		t.Errorf("another key's entry: got %v, want ErrUnusable", err)
	}
	store(t, c, k, "again")
	if e, err := c.Load("model", k); err != nil || string(e.Image) != "again" {
		t.Errorf("after it was replaced: got %v, %v", e, err)
	}
}

func TestI2FilesThatOthersMayHaveWrittenAreNotRead(t *testing.T) {
	dir := t.TempDir()
	c := openTest(t, dir)
	k := testKey()
	path := store(t, c, k, "image")
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got mode %v (%v), want 0600", info.Mode(), err)
	}
	refused := func(what string) {
		t.Helper()
		if _, err := c.Load("model", k); !errors.Is(err, ErrUnusable) && !errors.Is(err, unix.ELOOP) {
			t.Errorf("%s: got %v, want a refusal", what, err)
		}
	}
	for _, mode := range []fs.FileMode{0o620, 0o602, 0o666} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		refused(mode.String())
	}
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(path, 12345, -1); err != nil {
			t.Fatal(err)
		}
		refused("another owner")
	}
	if err := os.Rename(path, path+".moved"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Base(path)+".moved", path); err != nil {
		t.Fatal(err)
	}
	refused("a link")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	refused("a pipe")
}

func TestI2FoldersThatOthersMayWriteToAreRefused(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	c := openTest(t, dir)
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("got mode %v (%v), want 0700", info.Mode(), err)
	}
	_ = c
	for _, mode := range []fs.FileMode{0o720, 0o702, 0o777} {
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(dir, 0, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "nobody else write") {
			t.Errorf("mode %v: got %v", mode, err)
		}
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(file, 0, slog.New(slog.DiscardHandler)); err == nil {
		t.Error("a file: got no error")
	}
}

func TestI3ReadersAndWritersDoNotDisturbEachOther(t *testing.T) {
	dir := t.TempDir()
	k := testKey()
	image := bytes.Repeat([]byte("x"), 100_000)
	var wg sync.WaitGroup
	for range 3 {
		c := openTest(t, dir) // as another process would
		wg.Go(func() {
			for range 30 {
				if err := c.Store("model", k, image); err != nil {
					t.Error(err)
				}
			}
		})
		wg.Go(func() {
			for range 30 {
				e, err := c.Load("model", k)
				if errors.Is(err, fs.ErrNotExist) {
					continue
				}
				if err != nil || !bytes.Equal(e.Image, image) {
					t.Errorf("load: %v", err)
					return
				}
				trial, err := e.Try()
				if err != nil {
					t.Error(err)
					return
				}
				trial.Accept()
			}
		})
	}
	wg.Wait()
	if got := files(t, dir); len(got) != 1 {
		t.Errorf("got files %v, want one entry", got)
	}
}

func TestI4EntryInWhoseTrialAProcessDiedIsDropped(t *testing.T) {
	dir := t.TempDir()
	c := openTest(t, dir)
	k := testKey()
	store(t, c, k, "image")
	e, err := c.Load("model", k)
	if err != nil {
		t.Fatal(err)
	}
	trial, err := e.Try()
	if err != nil {
		t.Fatal(err)
	}
	other := openTest(t, dir)
	if _, err := other.Load("model", k); err != nil {
		t.Errorf("while the trial runs: got %v", err)
	}
	if err := trial.file.Close(); err != nil { // what the kernel does when the process ends
		t.Fatal(err)
	}
	next := openTest(t, dir)
	if _, err := next.Load("model", k); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after the death: got %v, want fs.ErrNotExist", err)
	}
	if got := files(t, dir); len(got) != 0 {
		t.Errorf("got files %v, want none", got)
	}
}

func TestTrialsEndAsTheyAreTold(t *testing.T) {
	dir := t.TempDir()
	c := openTest(t, dir)
	k := testKey()
	for _, end := range []struct {
		name string
		do   func(*Trial)
		kept bool
	}{{"accept", (*Trial).Accept, true}, {"abandon", (*Trial).Abandon, true}, {"reject", (*Trial).Reject, false}} {
		path := store(t, c, k, "image")
		long := time.Now().Add(-time.Hour)
		if err := os.Chtimes(path, long, long); err != nil {
			t.Fatal(err)
		}
		e, err := c.Load("model", k)
		if err != nil {
			t.Fatal(err)
		}
		trial, err := e.Try()
		if err != nil {
			t.Fatal(err)
		}
		end.do(trial)
		info, err := os.Stat(path)
		if (err == nil) != end.kept {
			t.Errorf("%s: got %v, want kept %v", end.name, err, end.kept)
		}
		if end.name == "accept" && time.Since(info.ModTime()) > time.Minute {
			t.Errorf("accept: got a last use of %v", info.ModTime())
		}
		if got := files(t, dir); len(got) > 1 {
			t.Errorf("%s: got files %v, want no marker", end.name, got)
		}
	}
}

func TestI5FolderIsBounded(t *testing.T) {
	dir := t.TempDir()
	c := openTest(t, dir)
	foreign := filepath.Join(dir, "notes.txt")
	if err := os.WriteFile(foreign, []byte("keep me"), 0o600); err != nil {
		t.Fatal(err)
	}
	old := filepath.Join(dir, entryName("model", testKey())+".1-2-3.tmp")
	if err := os.WriteFile(old, []byte("left behind"), 0o600); err != nil {
		t.Fatal(err)
	}
	age := func(path string, hours int) {
		t.Helper()
		at := time.Now().Add(-time.Duration(hours) * time.Hour)
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	age(old, 2)
	var paths []string
	for i := range generations + 2 {
		k := testKey()
		k.Program = fmt.Sprint(i)
		paths = append(paths, store(t, c, k, "image"))
		age(paths[i], 100-i)
	}
	k := testKey()
	k.Bucket++
	another := store(t, c, k, "another bucket")
	for i, p := range paths {
		if _, err := os.Stat(p); (err == nil) != (i >= 2) {
			t.Errorf("entry %d of %d: got %v, want only the last %d kept", i, len(paths), err, generations)
		}
	}
	for _, p := range []string{foreign, another} {
		if _, err := os.Stat(p); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(old); err == nil {
		t.Error("what a killed writer left is still there")
	}

	small, err := Open(dir, 800, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer small.Close()
	last := store(t, small, testKey(), strings.Repeat("x", 500))
	if got := files(t, dir); len(got) != 2 || filepath.Base(last) != got[0] && filepath.Base(last) != got[1] {
		t.Errorf("got files %v, want the last entry and the foreign file", got)
	}
}

func TestModelsHaveFilesOfTheirOwn(t *testing.T) {
	seen := map[string]string{}
	for _, m := range []string{"", "a", "a/b", "a_b", "a b", "ä", "../../etc", strings.Repeat("m", 300), strings.Repeat("m", 301), "a~b"} {
		name := entryName(m, testKey())
		if !entryPattern.MatchString(name) || strings.ContainsRune(name, '/') || len(name) > 120 {
			t.Errorf("model %.20q: got file %q", m, name)
		}
		if other, ok := seen[name]; ok {
			t.Errorf("models %q and %q share %q", m, other, name)
		}
		seen[name] = m
	}
}

func TestDigestsAreRememberedUntilTheFileChanges(t *testing.T) {
	dir := t.TempDir()
	c := openTest(t, dir)
	path := filepath.Join(t.TempDir(), "plugin.so")
	write := func(text string) string {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		d, err := c.FileDigest(path)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	first := write("one")
	if first != "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed" {
		t.Errorf("got %s", first)
	}
	// A remembered digest that is wrong shows that it is used.
	memo := filepath.Join(dir, files(t, dir)[0])
	text, err := os.ReadFile(memo)
	if err != nil {
		t.Fatal(err)
	}
	fake := strings.Repeat("0", 64)
	if err := os.WriteFile(memo, bytes.Replace(text, []byte(first), []byte(fake), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	if d, err := c.FileDigest(path); err != nil || d != fake {
		t.Errorf("got %s (%v), want what was remembered", d, err)
	}
	if d := write("two"); d == first || d == fake {
		t.Errorf("after a change: got %s", d)
	}
	// Times can be set back, the time of change of the inode cannot. It may be coarse, so write until it moves.
	before := write("abc")
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	changed := func(i fs.FileInfo) int64 { return i.Sys().(*syscall.Stat_t).Ctim.Nano() }
	for now := info; changed(now) == changed(info); {
		if err := os.WriteFile(path, []byte("xyz"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, info.ModTime(), info.ModTime()); err != nil {
			t.Fatal(err)
		}
		if now, err = os.Stat(path); err != nil {
			t.Fatal(err)
		}
	}
	if after, err := c.FileDigest(path); err != nil || after == before {
		t.Errorf("same size and time, other content: got %s (%v), want another digest than before", after, err)
	}
	if _, err := c.FileDigest(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing file: got %v", err)
	}
}
