package tables

// kernel pools the bags of one call; see sweepArgs for what it may rely on and sweepGeneric for what it must give.
type kernel struct {
	name  string
	sweep func(*sweepArgs)
}

// generic is the portable kernel, for processors that have no other and with the build tag noasm.
var generic = kernel{"generic", sweepGeneric}

// bestKernel is the fastest kernel for this processor.
func bestKernel() kernel { return kernels()[0] }
