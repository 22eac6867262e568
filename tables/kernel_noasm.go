//go:build noasm || !(amd64 || arm64)

package tables

// kernels are those that run on this processor, the fastest first.
func kernels() []kernel { return []kernel{generic} }
