package child

import (
	"io"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func dup(t *testing.T, f *os.File) int {
	t.Helper()
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	return fd
}

func TestReadyLineReadsBackAndEnds(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	want := Ready{Layout: 7, Incarnation: 3}
	if err := Announce(dup(t, w), want); err != nil {
		t.Fatal(err)
	}
	line, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := ParseReady(string(line)); err != nil || got != want {
		t.Fatalf("got %+v, %v, want %+v", got, err, want)
	}
}

func TestParseReadyRefusesOtherText(t *testing.T) {
	for _, line := range []string{"", "ready", "ready layout=1 incarnation=", "ready layout=-1 incarnation=2", "ready layout=1 incarnation=2 x", "READY layout=1 incarnation=2"} {
		if got, err := ParseReady(line); err == nil {
			t.Errorf("parse %q: got %+v, want an error", line, got)
		}
	}
}

func TestI2LifeEndsWithTheWritingEnd(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	gone := WatchLife(dup(t, r))
	select {
	case <-gone:
		t.Fatal("life ended while the writing end was open")
	default:
	}
	w.Close()
	select {
	case <-gone:
	case <-time.After(10 * time.Second):
		t.Fatal("life did not end within 10 s of closing the writing end")
	}
}
