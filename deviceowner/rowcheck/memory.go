package rowcheck

import (
	"context"
	"fmt"
	"math/rand/v2"

	"golang.org/x/sys/unix"

	"rankd/deviceowner/executor"
)

// newCheck maps the memory of a check: page-aligned, as executors expect of packed arrays.
func newCheck(ctx context.Context, exec executor.Executor, l Layout, o Options) (*check, error) {
	c := &check{ctx: ctx, exec: exec, layout: l, o: o, rng: rand.New(rand.NewPCG(o.Seed, 0x726f7773))}
	largest := l.Buckets[len(l.Buckets)-1]
	for i, a := range l.Arrays {
		if a.DType.Size() == 0 || a.Stride <= 0 || a.Stride%a.DType.Size() != 0 {
			c.close()
			return nil, fmt.Errorf("check rows: got stride %d of %s for array %d, want a positive multiple of its element size", a.Stride, a.DType, i)
		}
		for _, to := range []*[][]byte{&c.rows, &c.work} {
			m, err := unix.Mmap(-1, 0, largest*a.Stride, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
			if err != nil {
				c.close()
				return nil, fmt.Errorf("map %d rows of %d bytes: %w", largest, a.Stride, err)
			}
			*to = append(*to, m)
		}
	}
	c.scores = make([]byte, largest*l.ScoreBytes)
	return c, nil
}

func (c *check) close() {
	for _, m := range c.rows {
		_ = unix.Munmap(m) // fails only for a slice that is no mapping
	}
	if c.stuck {
		return
	}
	for _, m := range c.work {
		_ = unix.Munmap(m)
	}
}
