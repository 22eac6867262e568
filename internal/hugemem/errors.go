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
	Size      int64    // bytes asked for
	Need      int64    // bytes needed in that place: Size in whole pages of the place
	Available int64    // bytes, in the place with the most room
	Place     string   // that place
	Limit     string   // what set Available there: "filesystem", "cgroup", "machine memory" or "hugetlb pool"
	Tried     []string // one line a place: why it was not taken
}

func (e *RoomError) Error() string {
	need := fmt.Sprintf("%d bytes", e.Need)
	if e.Need != e.Size {
		need += fmt.Sprintf(" (%d in whole huge pages)", e.Size)
	}
	return fmt.Sprintf("create %q: need %s, %s has %d bytes available (limit: %s); %s, or name another place with --shm-dir (tried: %s)",
		e.Name, need, e.Place, e.Available, e.Limit, e.cure(), strings.Join(e.Tried, "; "))
}

// cure is what would make room in the place that came closest.
func (e *RoomError) cure() string {
	switch e.Limit {
	case "hugetlb pool":
		return "reserve huge pages (sysctl vm.nr_hugepages)"
	case "filesystem":
		return "make the filesystem larger (mount -o remount,size=)"
	case "cgroup":
		return "raise the control group's memory limit"
	}
	return "free memory"
}

// Is makes a RoomError an ErrNoRoom.
func (e *RoomError) Is(target error) bool { return target == ErrNoRoom }
