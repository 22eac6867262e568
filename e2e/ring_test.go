package e2e

import (
	"strings"

	"rankd/shmring"
)

// wantAtRest waits until the ring holds nothing: no row, no score that was not taken, no busy writer.
func (s *server) wantAtRest() {
	s.t.Helper()
	st := s.state()
	if st == nil || st.RegionFD < 0 {
		s.t.Fatal("look at the ring: the state file names none")
	}
	ring, err := shmring.AttachPath(st.FDPath(st.RegionFD))
	if err != nil {
		s.t.Fatalf("look at the ring: %v", err)
	}
	defer ring.Close()
	var bad []string
	s.until(limit, "a ring at rest", func() bool { bad = ring.Check(true); return len(bad) == 0 },
		func() string { return strings.Join(bad, "; ") })
}
