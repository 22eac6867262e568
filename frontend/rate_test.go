package frontend

import (
	"testing"
	"time"
)

func TestPauseOfTheDeviceIsNotTakenForItsPace(t *testing.T) {
	var m rateMeter
	now := time.Duration(0)
	window := func(span time.Duration, rows int, starved bool) {
		now += span
		m.add(rows, now-time.Millisecond, now)
		m.observe(now, starved, false)
	}
	window(0, 0, false)
	for range 4 {
		window(100*time.Millisecond, 1000, false) // 10000 rows a second, and nobody waits
	}
	window(50*time.Millisecond, 500, true) // the window in which the device stops
	// It is away for a second; calls wait, and some rows come back at its end.
	m.observe(now+500*time.Millisecond, true, false)
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

func TestTimeWithoutADeviceOwnerIsNoStay(t *testing.T) {
	var m rateMeter
	now := time.Duration(0)
	m.observe(now, true, false)
	for range 40 { // 3200 rows a second, 64 in the region: each stays 20 ms
		now += 25 * time.Millisecond
		m.add(80, now-20*time.Millisecond, now)
		m.observe(now, true, false)
	}
	before := m.wait(64)
	died := now
	for range 30 { // dead for three seconds; the loop is woken now and then
		now += 100 * time.Millisecond
		m.observe(now, true, true)
	}
	m.observe(now, true, false)
	for n := range 4 { // rows that were reserved when it died, and while it was dead
		now += 10 * time.Millisecond
		m.add(16, died+time.Duration(n)*time.Second, now)
	}
	m.observe(now, true, false)
	if got := m.wait(64); got > 3*before {
		t.Errorf("got an estimate of %v after three seconds without an owner, want about %v as before", got, before)
	}
	if got, want := m.after(320), 200*time.Millisecond; got > want {
		t.Errorf("320 rows: got an estimate of %v, want at most %v: the device did 3200 a second", got, want)
	}
}

func TestLightLoadIsNotTakenForWhatTheDeviceCanDo(t *testing.T) {
	var m rateMeter
	now := time.Duration(0)
	window := func(rows int, starved bool) {
		now += 25 * time.Millisecond
		m.add(rows, now-time.Millisecond, now)
		m.observe(now, starved, false)
	}
	window(0, false)
	for range 40 {
		window(1, false) // 40 rows a second
	}
	for n := range 20 { // a crowd: 2000 rows a second, and calls wait
		window(50, true)
		if got, want := m.after(1000), time.Second; got > want {
			t.Errorf("1000 rows after %d windows of a crowd: got an estimate of %v, want at most %v", n, got, want)
		}
	}
	if m.after(1000) == 0 {
		t.Error("1000 rows after half a second of a crowd: got no estimate")
	}
	// The first window in which calls waited may have been one of a device that was away.
	m = rateMeter{}
	window(0, true)
	now += time.Second
	window(2, true)
	for n := range 8 {
		window(50, true)
		if got, want := m.after(1000), time.Second; got > want {
			t.Errorf("1000 rows %d windows after a device that began late: got an estimate of %v, want at most %v", n, got, want)
		}
	}
	if m.after(1000) == 0 {
		t.Error("1000 rows after a device that began late: got no estimate")
	}
}
