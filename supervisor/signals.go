package supervisor

import (
	"os"
	"os/signal"
	"syscall"
	"time"
)

// repeated is the time within which the same signal counts as the one before: programs such as timeout(1) send theirs to the
// process and again to its group, and a terminal that is closed may hang up twice.
const repeated = 500 * time.Millisecond

// askedToStop delivers the requests to stop of this process. A closed terminal asks too, unless the server was started to
// ignore that (nohup). SIGPIPE is taken and forgotten: Go would die of it when the reader of the log has ended, in the middle
// of a drain. Children are not touched by this: they have sessions of their own and get no signal of the terminal.
func askedToStop() (requests <-chan os.Signal, stop func()) {
	wanted := []os.Signal{syscall.SIGTERM, syscall.SIGINT}
	if !signal.Ignored(syscall.SIGHUP) {
		wanted = append(wanted, syscall.SIGHUP)
	}
	asked, ignored := make(chan os.Signal, 4), make(chan os.Signal, 1)
	signal.Notify(asked, wanted...)
	signal.Notify(ignored, syscall.SIGPIPE)
	return asked, func() {
		signal.Stop(asked)
		signal.Stop(ignored)
	}
}

// request is the last request to stop.
type request struct {
	by string
	at time.Time
}

// again reports whether a request is only the echo of the last one, and remembers it.
func (r *request) again(by string, now time.Time) bool {
	echo := r.by == by && now.Sub(r.at) < repeated
	if !echo {
		*r = request{by, now}
	}
	return echo
}
