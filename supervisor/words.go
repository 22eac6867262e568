package supervisor

import (
	"strings"
	"sync"
)

// maxCause cuts the cause of a child's end, which stands in one line of a log and of /readyz.
const maxCause = 500

// lastWords remembers what a child said of its end: the first line of a crash, else its last error.
type lastWords struct {
	mu      sync.Mutex
	cause   string
	crashed bool // the cause is the first line of a crash; a stack follows
	open    bool // the cause is an error of several lines, which may go on
}

// hear takes a line of text; the program's last error comes like this, and so does a crash.
func (w *lastWords) hear(line string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	own, isOwn := strings.CutPrefix(line, "rankd: ")
	switch {
	case w.crashed:
	case strings.HasPrefix(line, "panic: "), strings.HasPrefix(line, "fatal error: "), strings.HasPrefix(line, "runtime: "):
		w.cause, w.crashed = line, true
	case isOwn:
		w.cause, w.open = own, true
	case w.open:
		w.cause += "; " + line
	default:
		w.cause = line
	}
	w.cut()
}

// record takes a log record of level error.
func (w *lastWords) record(message, cause string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.crashed {
		return
	}
	w.cause, w.open = message, false
	if cause != "" {
		w.cause += ": " + cause
	}
	w.cut()
}

func (w *lastWords) cut() {
	if len(w.cause) > maxCause {
		w.cause = strings.ToValidUTF8(w.cause[:maxCause], "") + "…"
		w.open = false
	}
}

// String gives the cause, or "" if nothing was said.
func (w *lastWords) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cause
}
