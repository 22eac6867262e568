package tables

// kernel pools the bags of one call; see sweepArgs for what it may rely on and sweepGeneric for what it must give.
type kernel struct {
	name  string
	sweep func(*sweepArgs)
}

// bestKernel is the fastest kernel for this processor.
func bestKernel() kernel { return kernel{"generic", sweepGeneric} }
