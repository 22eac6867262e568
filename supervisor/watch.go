package supervisor

import "time"

// hangWatch decides when the device owner hangs: its oldest launch is older than limit, or its loop has not turned for
// limit. A parked owner turns too, so standing still is a hang.
type hangWatch struct {
	limit     time.Duration
	heartbeat uint64
	moved     time.Time // when the heartbeat was last seen to move
	looked    time.Time
}

// lapse is a time between two looks that says more about this process or the machine, which may have been suspended, than
// about the owner.
const lapse = 2 * time.Second

// reset starts to watch a new owner.
func (w *hangWatch) reset(now time.Time) { w.moved, w.looked = now, now }

// look takes what the owner's words say now and reports why it hangs, or "".
func (w *hangWatch) look(now time.Time, heartbeat uint64, oldest time.Duration) string {
	if now.Sub(w.looked) > lapse {
		w.moved = now
	}
	w.looked = now
	if heartbeat != w.heartbeat {
		w.heartbeat, w.moved = heartbeat, now
	}
	switch {
	case oldest > w.limit:
		return "launch too old"
	case now.Sub(w.moved) > w.limit:
		return "loop stands still"
	}
	return ""
}

// beating reports whether the loop was seen to turn within the time given.
func (w *hangWatch) beating(now time.Time, within time.Duration) bool {
	return now.Sub(w.moved) <= within
}
