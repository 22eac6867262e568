package pjrt

// #include "shim.h"
import "C"

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// shimEnds is where started runs arrive when they are over. The plugin's threads append to a list in C and raise an eventfd,
// on which the runtime's poller waits: no thread is blocked, and none of the plugin's runs Go code.
type shimEnds struct {
	c     *C.struct_rk_ends
	bell  *os.File // the eventfd
	count [8]byte
	tags  []C.int // taken from the list and not yet returned by next: tags[at:n]
	at, n int

	mu    sync.Mutex  // guards calls; it also orders what the starter and the taker do to a call, as C does unseen
	calls []*shimCall // by tag
}

// newShimEnds makes room for depth runs in flight.
func newShimEnds(depth int) (*shimEnds, error) {
	fd, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("create eventfd: %w", err)
	}
	e := &shimEnds{bell: os.NewFile(uintptr(fd), "ends"), tags: make([]C.int, depth), calls: make([]*shimCall, depth)}
	if e.c = C.rk_ends_new(C.int(fd)); e.c == nil {
		return nil, errors.Join(errors.New("no memory"), e.bell.Close())
	}
	return e, nil
}

// expect says which call a tag stands for.
func (e *shimEnds) expect(tag int, c *shimCall) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.calls[tag] = c
}

func (e *shimEnds) call(tag int) *shimCall {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.calls[tag]
}

// next waits for a run that is over and returns its tag and what it said. ok is false after stop.
func (e *shimEnds) next() (a arrival, ok bool) {
	for e.at == e.n {
		if _, err := e.bell.Read(e.count[:]); errors.Is(err, os.ErrClosed) {
			return arrival{}, false
		} else if err != nil {
			panic(fmt.Sprintf("pjrt: wait for batches: %v", err)) // an eventfd of ours: nothing but a bug makes its read fail
		}
		e.at, e.n = 0, int(C.rk_take(e.c, &e.tags[0]))
	}
	tag := int(e.tags[e.at])
	e.at++
	return arrival{tag, e.call(tag).release()}, true
}

// stop ends next. No run may be in flight.
func (e *shimEnds) stop() { _ = e.bell.Close() } // a second time, it says so and does nothing

// free must come after the last next.
func (e *shimEnds) free() {
	e.stop()
	C.rk_ends_free(e.c)
	e.c = nil
}
