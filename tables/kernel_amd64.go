//go:build !noasm

package tables

import "golang.org/x/sys/cpu"

//go:generate ./kernelgen/generate.sh

var (
	avx512 = tiles{pool1F32AVX512, pool2F32AVX512, pool4F32AVX512, pool8F32AVX512}
	avx2   = tiles{pool1F32AVX2, pool2F32AVX2, pool4F32AVX2}
)

// kernels are those that run on this processor, the fastest first.
func kernels() []kernel {
	var all []kernel
	if cpu.X86.HasAVX512F {
		all = append(all, kernel{"avx512", avx512, aheadIDs})
	}
	if cpu.X86.HasAVX2 {
		all = append(all, kernel{"avx2", avx2, aheadIDs})
	}
	return append(all, generic)
}
