package tables

// kernel pools the bags of one call; see sweepArgs for what it may rely on and sweepGeneric for what it must give.
type kernel struct {
	name   string
	tiles  *[forms]tiles // nil: portable
	narrow narrowFunc
	ahead  int // ids before its use at which a row is prefetched; at most prefetchPad
}

func (k *kernel) sweep(a *sweepArgs) {
	if k.tiles == nil {
		sweepGeneric(a)
		return
	}
	k.sweepTiles(a)
}

// generic is the portable kernel, for processors that have no other and with the build tag noasm.
var generic = kernel{name: "generic"}

// aheadIDs is how far ahead rows are prefetched.
const aheadIDs = 12

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
