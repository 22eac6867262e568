package pjrt

import (
	"fmt"

	"rankd/deviceowner/pjrt/execache"
)

// Source returns where the program of a bucket came from, or SourceNone if it is not ready.
func (e *Executor) Source(bucket int) Source {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.sources[bucket]
}

// Export returns the image of a bucket that is ready, and the key under which an executor of the same options finds it. It reads
// the whole plugin once.
func (e *Executor) Export(bucket int) (execache.Key, []byte, error) {
	e.compiling.Lock() // Close must wait
	defer e.compiling.Unlock()
	e.mu.Lock()
	r, closed := e.runners[bucket], e.closed
	e.mu.Unlock()
	if closed {
		return execache.Key{}, nil, fmt.Errorf("export bucket %d: %w", bucket, ErrClosed)
	}
	if r == nil {
		return execache.Key{}, nil, fmt.Errorf("export bucket %d: %w", bucket, ErrNotCompiled)
	}
	d, ok := e.device.(storer)
	if !ok {
		return execache.Key{}, nil, wrong("export bucket %d: %s serializes nothing", bucket, e.device.describe())
	}
	if u, ok := r.(*unproven); ok {
		r = u.runner
	}
	base, err := e.ownKey()
	if err != nil {
		return execache.Key{}, nil, fmt.Errorf("export bucket %d: %w", bucket, err)
	}
	text, err := e.program(bucket)
	if err != nil {
		return execache.Key{}, nil, wrong("read program of bucket %d: %w", bucket, err)
	}
	image, err := d.serialize(r)
	if err != nil {
		return execache.Key{}, nil, fmt.Errorf("serialize bucket %d: the plugin does not: %w", bucket, lasting(err))
	}
	return keyFor(base, bucket, text), image, nil
}
