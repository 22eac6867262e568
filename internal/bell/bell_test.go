package bell

import (
	"testing"
	"time"
)

func TestI1RingBeforeWaitIsKept(t *testing.T) {
	fd, err := Create()
	if err != nil {
		t.Fatal(err)
	}
	b, err := Open(fd)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	set := Set{fd}
	for range 3 {
		set.Ring(0)
	}
	if rung, err := b.Wait(time.Minute); err != nil || !rung {
		t.Fatalf("wait after rings: got %v, %v, want a ring", rung, err)
	}
	if rung, err := b.Wait(time.Millisecond); err != nil || rung {
		t.Fatalf("second wait: got %v, %v, want the timeout: three rings are one wake-up", rung, err)
	}
	go set.Ring(0)
	if rung, err := b.Wait(time.Minute); err != nil || !rung {
		t.Fatalf("wait across a ring: got %v, %v, want a ring", rung, err)
	}
}
