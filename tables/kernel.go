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

// KernelNames lists the kernels that run on this processor, the fastest first.
func KernelNames() []string {
	var names []string
	for _, k := range kernels() {
		names = append(names, k.name)
	}
	return names
}
