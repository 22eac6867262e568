package supervisor

import (
	"context"
	"log/slog"
	"os"
	"time"

	"rankd/internal/child"
	"rankd/internal/placement"
	"rankd/shmring"
)

// Ring is the supervisor's end of a region. *shmring.Supervisor is one. It is called from one goroutine.
type Ring interface {
	MarkDead(i int, incarnation uint32)
	Recovered(i int) bool
	MarkOwnerDead(incarnation uint32)
	SetOwnerState(shmring.OwnerState)
	SetDraining()
	RingAll()
	OwnerHeartbeat() uint64
	OldestLaunch() time.Duration
	KillRequest(i int) (incarnation uint32, wanted bool)
}

var _ Ring = (*shmring.Supervisor)(nil)

// Memory describes shared memory for people.
type Memory struct {
	Bytes     int64  `json:"bytes"`
	HugeBytes int64  `json:"huge_bytes"` // of them on huge pages
	Pages     string `json:"pages"`      // the pages really obtained, such as "huge-tmpfs, 100 % huge"
	Path      string `json:"path,omitempty"`
	Attached  bool   `json:"attached,omitempty"` // found complete in memory, not loaded again

	Placement string        `json:"placement,omitempty"`     // on which nodes it was to lie
	Nodes     map[int]int64 `json:"bytes_by_node,omitempty"` // on which its pages lie, as the kernel has it; none: not known
}

// Tables is the loaded segment. The supervisor closes it, or removes it, after the last child is gone.
type Tables struct {
	FD     int // for reading; inherited by frontends
	Memory Memory
	More   []TableCopy  // copies on other nodes; a frontend inherits the one of its place in the plan
	Check  func() error // an error: somebody has damaged the segment; nil: it is not looked at
	Close  func() error // unmaps and closes; the segment stays if it has a name
	Remove func() error // removes the segment's name, before Close; nil if it has none
}

// TableCopy is the tables once more.
type TableCopy struct {
	FD     int
	Memory Memory
}

// Region is ring memory that was made fresh.
type Region struct {
	FD     int // inherited by all children
	Memory Memory
	Ring   Ring
	Close  func() error
}

// Role says how to start the processes of one kind.
type Role struct {
	Command string                         // first argument of the child
	Args    func(child.Inherited) []string // the others: the whole configuration with the inherited part filled in
	Env     []string                       // "NAME=value", on top of the supervisor's environment
}

// Model is what the status page shows of the model.
type Model struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Dir     string `json:"dir"`
}

// Deps is what the wiring gives to the supervisor, so that it knows neither services nor devices.
type Deps struct {
	Log *slog.Logger

	// LoadTables publishes the tables of the model. It owns the files rankd.<instance>.tables.* and removes stale ones
	// before it needs room. progress may be called from any goroutine.
	LoadTables func(ctx context.Context, instance string, progress func(done, total int64)) (*Tables, error)
	// NewRegion makes a fresh region; bells holds one eventfd a frontend, which stays the supervisor's.
	NewRegion func(ctx context.Context, bells []int) (*Region, error)

	Owner     Role
	Frontend  Role
	Layout    uint32          // version of the shared layout that a ready line must name
	Placement *placement.Plan // where the children run; nil: wherever the supervisor may

	Model    Model
	Executor string // what runs the batches, for people; "simulated accelerator" if it is one

	ShmDirs    []string         // where files of this instance may lie
	Executable string           // what children execute; empty: this program
	Signals    <-chan os.Signal // requests to stop; nil: SIGTERM and SIGINT of this process
}
