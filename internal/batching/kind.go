package batching

import "fmt"

// Kind is a policy, by the name that --batching gives it.
type Kind string

// The policies. A slab that is full is closed under each of them.
const (
	Continuous Kind = "continuous" // when the device is free
	Linger     Kind = "linger"     // when the device is free and the first row is older than --max-delay
	Fused      Kind = "fused"      // when the first row is older than --max-delay
	Off        Kind = "off"        // at once: each request is a batch of its own
)

// traits are what processes other than the closing one need to know of a policy.
type traits struct {
	kind  Kind
	alone bool // a slab takes one request
	timed bool // the age of the first row matters
}

var table = [...]traits{
	{kind: Continuous},
	{kind: Linger, timed: true},
	{kind: Fused, timed: true},
	{kind: Off, alone: true},
}

// All lists the policies.
func All() []Kind {
	all := make([]Kind, 0, len(table))
	for _, t := range table {
		all = append(all, t.kind)
	}
	return all
}

// Known reports whether k is a policy.
func (k Kind) Known() bool {
	_, ok := k.find()
	return ok
}

// Alone reports whether a slab takes one request, which the frontend that brings it closes itself. As many slabs as there
// are may then be open at once.
func (k Kind) Alone() bool { return k.traits().alone }

// Timed reports whether a slab may be closed because time has passed and nothing else has happened.
func (k Kind) Timed() bool { return k.traits().timed }

func (k Kind) find() (traits, bool) {
	for _, t := range table {
		if t.kind == k {
			return t, true
		}
	}
	return traits{}, false
}

func (k Kind) traits() traits {
	t, ok := k.find()
	if !ok {
		panic(fmt.Sprintf("batching: got policy %q, want one of %v", string(k), All()))
	}
	return t
}
