//go:build !noasm

package tables

var neon = [forms]tiles{
	float32s:  {pool1F32NEON, pool2F32NEON, pool4F32NEON},
	float16s:  {pool1F16NEON, pool2F16NEON, pool4F16NEON},
	bfloat16s: {pool1BF16NEON, pool2BF16NEON, pool4BF16NEON},
	int8s:     {pool1I8NEON, pool2I8NEON, pool4I8NEON},
}

// kernels are those that run on this processor, the fastest first. All that run this code have NEON.
func kernels() []kernel { return []kernel{{"neon", &neon, narrowNEON, aheadIDs}, generic} }
