package execache

import (
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const (
	entrySuffix     = ".exe"
	trialSuffix     = ".trial"
	temporarySuffix = ".tmp"
	badSuffix       = ".bad"
)

// Entry is an entry that was read, or a foreign image.
type Entry struct {
	Image []byte

	cache *Cache
	name  string
}

// Trial is the time in which an image may turn out to be bad.
type Trial struct {
	entry  *Entry
	marker string
	file   *os.File // holds the marker's lock
}

// Try begins a trial, which Accept, Reject or Abandon ends. There may be several, one after the other: one of loading the
// image and one of its first use. The marker gets its name only when it is locked, so that nobody sees it without an owner.
func (e *Entry) Try() (*Trial, error) {
	root := e.cache.root
	t := &Trial{entry: e, marker: e.name + "." + unique() + trialSuffix}
	temporary := t.marker + temporarySuffix
	f, err := root.OpenFile(temporary, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("begin trial: %w", err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		err = root.Rename(temporary, t.marker)
	}
	if err != nil {
		_ = f.Close()
		_ = root.Remove(temporary)
		return nil, fmt.Errorf("begin trial: %w", err)
	}
	t.file = f
	return t, nil
}

// Accept ends the trial of an image that works, and notes that the entry was used.
func (t *Trial) Accept() {
	now := time.Now()
	_ = t.entry.cache.root.Chtimes(t.entry.name, now, now) // it may have been pruned meanwhile
	t.Abandon()
}

// Reject ends the trial of an image that does not work and removes its entry, or marks it as bad.
func (t *Trial) Reject() {
	t.entry.cache.drop(t.entry.name)
	t.Abandon()
}

// Abandon ends a trial that showed nothing.
func (t *Trial) Abandon() {
	c := t.entry.cache
	if err := c.root.Remove(t.marker); err != nil {
		c.log.Warn("executable cache cannot be tidied", "dir", c.dir, "error", err)
	}
	_ = t.file.Close() // gives the lock back; nothing was written
}

// dropDead removes the entries in whose trial a process died.
func (c *Cache) dropDead() {
	for _, f := range c.list() {
		if strings.HasSuffix(f.name, trialSuffix) {
			c.dropIfDead(f.name)
		}
	}
}

func (c *Cache) dropIfDead(marker string) {
	f, err := c.root.OpenFile(marker, os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return // its trial has ended
	}
	defer f.Close()
	if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		return // its process lives
	}
	if _, err := c.root.Lstat(marker); err != nil {
		return // its trial ended between the two
	}
	if entry, ok := entryOf(marker); ok {
		c.log.Warn("executable dropped: a process died while it tried it", "dir", c.dir, "file", entry)
		c.drop(entry)
	}
	_ = c.root.Remove(marker)
}

var sequence atomic.Uint64

// unique is part of the names of files that only this process may know.
func unique() string {
	return fmt.Sprintf("%d-%d-%d", os.Getpid(), time.Now().UnixNano(), sequence.Add(1))
}
