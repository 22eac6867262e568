//go:build !faults

package faults

// Enabled reports whether this binary was built with fault hooks.
const Enabled = false

// Hit marks the visit of a named point. In this build it does nothing.
func Hit(string) {}

// Become says what process this is. In this build nobody wants to know.
func Become(string, int, uint32) {}

// Am reports whether this process is the one that a spec means. In this build no spec means anyone.
func Am(string) bool { return false }
