package steer

// Policy is a rule by which the socket of a new connection is chosen.
type Policy string

// The policies.
const (
	Auto             Policy = "auto"              // the best that is permitted
	None             Policy = "none"              // the kernel's hash of addresses and ports
	RoundRobin       Policy = "round-robin"       // one socket after the other
	LeastConnections Policy = "least-connections" // the one whose frontend has the fewest open connections
)

// Mechanism is what carries a policy out.
type Mechanism string

// The mechanisms.
const (
	ByHash    Mechanism = "kernel hash"
	ByEBPF    Mechanism = "eBPF"
	ByClassic Mechanism = "classic BPF"
)

// State says how connections are spread, and why so.
type State struct {
	Policy    Policy    `json:"policy"`
	Mechanism Mechanism `json:"mechanism"`
	Why       string    `json:"why"`
	Fallback  bool      `json:"fallback,omitempty"` // something better was wanted and not to be had
}

// Load is what one frontend has.
type Load struct {
	Accepted uint64 // connections that it and its predecessors have accepted
	Open     int64  // of those, the ones that are open
	Live     bool   // it accepts, or is about to
}
