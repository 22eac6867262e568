//go:build !noasm

package tables

var neon = tiles{pool1F32NEON, pool2F32NEON, pool4F32NEON}

// kernels are those that run on this processor, the fastest first. All that run this code have NEON.
func kernels() []kernel { return []kernel{{"neon", neon, aheadIDs}, generic} }
