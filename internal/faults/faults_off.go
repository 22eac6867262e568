//go:build !faults

package faults

// Enabled reports whether this binary was built with fault hooks.
const Enabled = false

// Hit marks the visit of a named point. In this build it does nothing.
func Hit(string) {}
