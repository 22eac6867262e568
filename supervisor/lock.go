package supervisor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// orphanLimit bounds the wait for a lock whose holder is dead.
const orphanLimit = 10 * time.Second

// holder is what stands in a lock file: the supervisor that took it last and the instance it serves.
type holder struct {
	identity
	Instance string `json:"instance"`
}

// lock is a held file lock. The kernel frees it when the last descriptor of this opening is closed, those of children included.
type lock struct{ file *os.File }

// takeLock takes the lock for what (an address or an instance). If a living supervisor holds it, that is an error with its
// pid. If only orphans of a dead one hold it, they are ended, and the lock is taken when they are gone (I1).
func takeLock(log *slog.Logger, dir, what, instance string) (*lock, error) {
	path := filepath.Join(dir, what+".lock")
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock of %s: %w", what, err)
	}
	if err := acquire(log, file, dir, what); err != nil {
		file.Close()
		return nil, err
	}
	if err := writeHolder(file, instance); err != nil {
		file.Close()
		return nil, fmt.Errorf("write holder into lock of %s: %w", what, err)
	}
	return &lock{file}, nil
}

func acquire(log *slog.Logger, file *os.File, dir, what string) error {
	deadline := time.Now().Add(orphanLimit)
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for said := false; ; <-poll.C {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return fmt.Errorf("lock %s: %w", what, err)
		}
		// The holder may have taken the lock this instant and not have written its name yet; the next turn sees it.
		last, readErr := readHolder(file)
		if readErr == nil && last.alive() {
			return fmt.Errorf("lock %s: process %d serves it already: stop that or choose another --listen and --instance: %w", what, last.PID, ErrServed)
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("lock %s: its supervisor is dead, but processes hold it still after %v: find them with lsof %s", what, orphanLimit, file.Name())
		}
		if !said {
			log.Warn("lock is held by orphans of a dead supervisor, ending them", slog.String("lock", file.Name()))
			said = true
		}
		if readErr != nil {
			continue
		}
		if err := endOrphans(dir, last.Instance); err != nil {
			return err
		}
	}
}

func readHolder(file *os.File) (holder, error) {
	text, err := io.ReadAll(io.NewSectionReader(file, 0, 1024))
	if err != nil {
		return holder{}, err
	}
	var h holder
	err = json.Unmarshal(text, &h)
	return h, err
}

func writeHolder(file *os.File, instance string) error {
	id, err := identify(os.Getpid())
	if err != nil {
		return err
	}
	text, err := json.Marshal(holder{id, instance})
	if err != nil {
		return err
	}
	if err := file.Truncate(0); err != nil {
		return err
	}
	_, err = file.WriteAt(text, 0)
	return err
}

// release closes this process's descriptor. The file stays: removing it would let two processes lock different files.
func (l *lock) release() {
	if l != nil {
		l.file.Close()
	}
}
