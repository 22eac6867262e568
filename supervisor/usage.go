package supervisor

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// usage is what a process has used.
type usage struct {
	cpu  time.Duration // user and system, since its start
	anon int64         // bytes of its own memory; shared memory is counted once, elsewhere
}

// clockTick is the unit of CPU times in /proc: USER_HZ, which is 100 on every machine that Go runs on.
const clockTick = 10 * time.Millisecond

// usageOf reads the usage of a process; ok is false if it is gone.
func usageOf(pid int) (u usage, ok bool) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return u, false
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])) // from the third on
	if len(fields) < 13 {
		return u, false
	}
	for _, text := range fields[11:13] { // utime, stime
		ticks, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return u, false
		}
		u.cpu += time.Duration(ticks) * clockTick
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return u, false
	}
	for line := range strings.Lines(string(status)) {
		if value, found := strings.CutPrefix(line, "RssAnon:"); found {
			kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
			if err != nil {
				return u, false
			}
			u.anon = kib << 10
		}
	}
	return u, true
}

// meter remembers the usage of processes between two readings.
type meter struct {
	at    time.Time
	used  map[int]usage // by pid
	cores map[int]float64
}

// read looks at the processes and returns how many processors all of them together were busy on since the last reading.
func (m *meter) read(pids []int, now time.Time) (all float64) {
	took := now.Sub(m.at).Seconds()
	used, cores := map[int]usage{}, map[int]float64{}
	for _, pid := range pids {
		u, ok := usageOf(pid)
		if !ok {
			continue
		}
		used[pid] = u
		if old, known := m.used[pid]; known && took > 0 && u.cpu >= old.cpu {
			cores[pid] = (u.cpu - old.cpu).Seconds() / took
			all += cores[pid]
		}
	}
	m.at, m.used, m.cores = now, used, cores
	return all
}
