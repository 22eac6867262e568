package reference

import (
	"errors"
	"fmt"

	"rankd/model"
)

// OpenNetwork opens the network of b if it is one that this package can build: DCNv2 or Readout. The error of any other model has
// what each of them lacks.
func OpenNetwork(b *model.Bundle) (Network, error) {
	d, first := OpenDCNv2(b)
	if first == nil {
		return d.Forward, nil
	}
	r, second := OpenReadout(b)
	if second == nil {
		return r.Forward, nil
	}
	return nil, fmt.Errorf("open reference network of model %q: it is none of those that are known: %w", b.Manifest.Name, errors.Join(first, second))
}
