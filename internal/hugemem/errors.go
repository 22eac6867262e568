package hugemem

import (
	"errors"
	"fmt"
	"strings"
)

// Sentinels of Create.
var (
	ErrNoRoom     = errors.New("not enough memory for shared pages")
	ErrFilesystem = errors.New("directory is neither on tmpfs nor on hugetlbfs")
	ErrNoMode     = errors.New("no place offers the pages asked for")
)

// RoomError says that no place had the bytes needed. It is ErrNoRoom.
type RoomError struct {
	Name      string
	Need      int64    // bytes
	Available int64    // bytes, in the place with the most room
	Place     string   // that place
	Limit     string   // what set Available there: "filesystem", "cgroup", "machine memory" or "hugetlb pool"
	Tried     []string // one line a place: why it was not taken
}

func (e *RoomError) Error() string {
	return fmt.Sprintf("create %q: need %d bytes, %s has %d bytes available (limit: %s); "+
		"free memory there or name a larger tmpfs with --shm-dir (tried: %s)",
		e.Name, e.Need, e.Place, e.Available, e.Limit, strings.Join(e.Tried, "; "))
}

// Is makes a RoomError an ErrNoRoom.
func (e *RoomError) Is(target error) bool { return target == ErrNoRoom }
