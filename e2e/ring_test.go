package e2e

import (
	"strings"

	"rankd/shmring"
)

// ring maps the ring of the present supervisor; the caller closes it.
func (s *server) ring() *shmring.Attached {
	s.t.Helper()
	st := s.state()
	if st == nil || st.RegionFD < 0 {
		s.t.Fatal("look at the ring: the state file names none")
	}
	ring, err := shmring.AttachPath(st.FDPath(st.RegionFD))
	if err != nil {
		s.t.Fatalf("look at the ring: %v", err)
	}
	return ring
}

// wantAtRest waits until the ring holds nothing: no row, no score that was not taken, no busy writer.
func (s *server) wantAtRest() {
	s.t.Helper()
	ring := s.ring()
	defer ring.Close()
	var bad []string
	s.until(limit, "a ring at rest", func() bool { bad = ring.Check(true); return len(bad) == 0 },
		func() string { return strings.Join(bad, "; ") })
}

// awaitFull waits until no slab has room and somebody waits for some.
func (s *server) awaitFull() {
	s.t.Helper()
	ring := s.ring()
	defer ring.Close()
	full := func() bool {
		v := ring.View()
		for i, slab := range v.Slabs {
			if v.OpenMask>>i&1 != 0 && slab.Reserved < v.Geometry.Capacity {
				return false
			}
		}
		return v.SpaceWaiters != 0
	}
	s.until(limit, "a full ring", full, func() string { return "" })
}
