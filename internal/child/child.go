package child

import (
	"fmt"
	"os"
	"strings"
)

// Inherited is the part of every child's configuration that the supervisor fills: its place and its descriptors.
// A descriptor that a role does not get is -1.
type Inherited struct {
	Instance    string `flag:"instance" help:"name of this server in the names of its files"`
	Index       int    `flag:"index" min:"0" max:"63" help:"which frontend this is" hidden:"true"`
	Incarnation uint32 `flag:"incarnation" help:"how often this place has been filled, from 1" hidden:"true"`

	ListenerFD int   `flag:"listener-fd" help:"listening socket, non-blocking" hidden:"true"`
	RegionFD   int   `flag:"region-fd" help:"ring region" hidden:"true"`
	TablesFD   int   `flag:"tables-fd" help:"table segment, opened for reading" hidden:"true"`
	StatsFD    int   `flag:"stats-fd" help:"counter page" hidden:"true"`
	BellFDs    []int `flag:"bell-fds" help:"eventfds: a frontend's own, or those of all frontends for the owner" hidden:"true"`
	ReadyFD    int   `flag:"ready-fd" help:"pipe for the ready line" hidden:"true"`
	LifeFD     int   `flag:"life-fd" help:"pipe that ends with the supervisor" hidden:"true"`
	LockFD     int   `flag:"lock-fd" help:"instance lock, held open and otherwise unused" hidden:"true"`
}

// NoDescriptors is an Inherited in which nothing was handed over.
func NoDescriptors() Inherited {
	return Inherited{
		ListenerFD: -1, RegionFD: -1, TablesFD: -1, StatsFD: -1, ReadyFD: -1, LifeFD: -1, LockFD: -1,
	}
}

// Ready is what a ready line says.
type Ready struct {
	Layout      uint32 // version of the shared layout that the child was built with
	Incarnation uint32
}

// Announce writes the ready line to fd and closes it.
func Announce(fd int, r Ready) error {
	pipe := os.NewFile(uintptr(fd), "ready")
	if pipe == nil {
		return fmt.Errorf("announce ready: got descriptor %d, want an open pipe", fd)
	}
	defer pipe.Close()
	if _, err := fmt.Fprintf(pipe, "ready layout=%d incarnation=%d\n", r.Layout, r.Incarnation); err != nil {
		return fmt.Errorf("announce ready: %w", err)
	}
	return nil
}

// ParseReady reads a ready line, with or without its newline.
func ParseReady(line string) (Ready, error) {
	var r Ready
	line = strings.TrimSuffix(line, "\n")
	if _, err := fmt.Sscanf(line, "ready layout=%d incarnation=%d", &r.Layout, &r.Incarnation); err != nil || line != r.String() {
		return Ready{}, fmt.Errorf("parse ready line: got %q, want %q", line, "ready layout=<version> incarnation=<k>")
	}
	return r, nil
}

// String is the ready line without its newline.
func (r Ready) String() string {
	return fmt.Sprintf("ready layout=%d incarnation=%d", r.Layout, r.Incarnation)
}

// WatchLife takes over fd and returns a channel that is closed when the supervisor is gone. With fd -1 (a child started by
// hand) the channel never closes.
func WatchLife(fd int) <-chan struct{} {
	gone := make(chan struct{})
	if fd < 0 {
		return gone
	}
	pipe := os.NewFile(uintptr(fd), "life")
	go func() {
		var one [1]byte
		_, _ = pipe.Read(one[:]) // I2: it can only end
		pipe.Close()
		close(gone)
	}()
	return gone
}
