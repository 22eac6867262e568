package tables

import "unsafe"

// idsOf is how many ids some bags of a tileFunc have together.
func idsOf(lens *uint32, bags int) (ids int) {
	for _, n := range unsafe.Slice(lens, bags) {
		ids += int(n)
	}
	return ids
}
