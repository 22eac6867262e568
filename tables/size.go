package tables

import "rankd/model"

// SegmentBytes is what the tables of a model take in memory, before it is rounded up to whole pages.
func SegmentBytes(m *model.Manifest) (int64, error) {
	l, err := layoutOf(m)
	if err != nil {
		return 0, err
	}
	return l.used(), nil
}
