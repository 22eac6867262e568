package supervisor

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"
)

// TestI3RestartPolicy reads one line an event: "died" (before READY), "ready", "died-ready" (after READY), or "exit CODE".
func TestI3RestartPolicy(t *testing.T) {
	datadriven.RunTest(t, "testdata/restart.td", func(t *testing.T, d *datadriven.TestData) string {
		var first, limit string
		d.ScanArgs(t, "first", &first)
		d.ScanArgs(t, "limit", &limit)
		b := backoff{first: duration(t, first), limit: duration(t, limit)}
		var out strings.Builder
		for _, line := range strings.Split(strings.TrimSpace(d.Input), "\n") {
			word, number, _ := strings.Cut(line, " ")
			switch word {
			case "died":
				fmt.Fprintln(&out, b.died(false))
			case "died-ready":
				fmt.Fprintln(&out, b.died(true))
			case "ready":
				b.ready()
				fmt.Fprintln(&out, "-")
			case "exit":
				code := 0
				_, _ = fmt.Sscan(number, &code)
				fmt.Fprintln(&out, map[verdict]string{restart: "restart", giveUp: "give up", rebuild: "rebuild"}[judge(code)])
			default:
				d.Fatalf(t, "unknown event %q", line)
			}
		}
		return out.String()
	})
}

func duration(t *testing.T, text string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestHangWatch reads one look a line: time passed, turns of the loop, age of the oldest launch.
func TestHangWatch(t *testing.T) {
	datadriven.RunTest(t, "testdata/hang.td", func(t *testing.T, d *datadriven.TestData) string {
		var limit string
		d.ScanArgs(t, "limit", &limit)
		w := hangWatch{limit: duration(t, limit)}
		now, beat := time.Unix(1000, 0), uint64(0)
		w.reset(now)
		var out strings.Builder
		for _, line := range strings.Split(strings.TrimSpace(d.Input), "\n") {
			f := strings.Fields(line)
			turns := 0
			_, _ = fmt.Sscan(f[1], &turns)
			now, beat = now.Add(duration(t, f[0])), beat+uint64(turns)
			why := w.look(now, beat, duration(t, f[2]))
			if why == "" {
				why = "fine"
			}
			fmt.Fprintln(&out, why)
		}
		return out.String()
	})
}

// TestI3PlacesAreFilledWhenTheirTimeHasCome runs a place through early deaths on a false clock.
func TestI3PlacesAreFilledWhenTheirTimeHasCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &place{backoff: backoff{first: 100 * time.Millisecond, limit: time.Second}}
		began := time.Now()
		var starts []time.Duration
		for range 6 {
			for !p.due(time.Now()) {
				<-time.After(10 * time.Millisecond)
			}
			starts = append(starts, time.Since(began))
			p.startAt = time.Now().Add(p.backoff.died(false))
		}
		want := "[0s 100ms 300ms 700ms 1.5s 2.5s]"
		if got := fmt.Sprint(starts); got != want {
			t.Errorf("got starts at %s, want %s", got, want)
		}
	})
}
