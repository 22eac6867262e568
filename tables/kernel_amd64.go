//go:build !noasm

package tables

import "golang.org/x/sys/cpu"

//go:generate ./kernelgen/generate.sh

var (
	avx512 = [forms]tiles{
		float32s:  {pool1F32AVX512, pool2F32AVX512, pool4F32AVX512, pool8F32AVX512},
		float16s:  {pool1F16AVX512, pool2F16AVX512, pool4F16AVX512, pool8F16AVX512},
		bfloat16s: {pool1BF16AVX512, pool2BF16AVX512, pool4BF16AVX512, pool8BF16AVX512},
		int8s:     {pool1I8AVX512, pool2I8AVX512, pool4I8AVX512, pool8I8AVX512},
	}
	avx2 = [forms]tiles{
		float32s:  {pool1F32AVX2, pool2F32AVX2, pool4F32AVX2},
		float16s:  {pool1F16AVX2, pool2F16AVX2, pool4F16AVX2},
		bfloat16s: {pool1BF16AVX2, pool2BF16AVX2, pool4BF16AVX2},
		int8s:     {pool1I8AVX2, pool2I8AVX2, pool4I8AVX2},
	}
)

// kernels are those that run on this processor, the fastest first.
func kernels() []kernel {
	var all []kernel
	if cpu.X86.HasAVX512F {
		all = append(all, kernel{"avx512", &avx512, narrowAVX512, aheadIDs})
	}
	if cpu.X86.HasAVX2 && cpu.X86.HasFMA { // float16 needs F16C, which has no flag here and came before both
		all = append(all, kernel{"avx2", &avx2, narrowAVX2, aheadIDs})
	}
	return append(all, generic)
}
