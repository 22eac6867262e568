package frontend

import (
	"testing"
	"time"
)

func TestPauseOfTheDeviceIsNotTakenForItsPace(t *testing.T) {
	var m rateMeter
	now := time.Duration(0)
	window := func(span time.Duration, rows int, starved bool) {
		m.add(rows, time.Millisecond)
		now += span
		m.observe(now, starved)
	}
	window(0, 0, false)
	for range 4 {
		window(100*time.Millisecond, 1000, false) // 10000 rows a second, and nobody waits
	}
	window(50*time.Millisecond, 500, true) // the window in which the device stops
	// It is away for a second; calls wait, and some rows come back at its end.
	m.observe(now+500*time.Millisecond, true)
	window(time.Second, 100, true)
	if got, want := m.after(1000), 300*time.Millisecond; got == 0 || got > want {
		t.Errorf("1000 rows after a pause: got an estimate of %v, want above 0 and at most %v: the device did 10000 a second", got, want)
	}
	// Nor is a pause of one second after the device has been saturated for a while.
	for range 100 {
		window(100*time.Millisecond, 1000, true)
	}
	window(time.Second, 10, true)
	if got, want := m.after(10000), 2*time.Second; got > want {
		t.Errorf("10000 rows after a pause: got an estimate of %v, want at most %v", got, want)
	}
	// A device that stays slow is found out within a few horizons.
	for range 12 {
		window(time.Second, 100, true)
	}
	if got, want := m.after(1000), 8*time.Second; got < want {
		t.Errorf("1000 rows at 100 a second: got an estimate of %v, want at least %v", got, want)
	}
}
