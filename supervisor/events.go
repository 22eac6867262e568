package supervisor

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
)

// Event is something that happened to the server, as its log has it.
type Event struct {
	At    time.Time `json:"at"`    // the last time
	Level string    `json:"level"` // INFO, WARN or ERROR
	Text  string    `json:"text"`
	Times int       `json:"times"` // in a row
}

// maxEvents is how many the status page remembers, the last ones.
const maxEvents = 100

// told are the records that are events although nothing is wrong; warnings and errors all are.
var told = []string{
	"server starts", "tables are loaded", "child is ready", "child has ended", "server is ready", "asked to stop, draining", "connections are steered",
	"requests are no longer refused", "leftovers of a dead server removed",
}

// shown are the attributes that an event has of its record, in this order.
var shown = []string{"child", "role", "index", "pid", "ending", "cause", "next_start_in_seconds", "listen", "pages", "attached", "after_seconds", "refused", "reasons", "policy", "by", "why", "error", "text"}

// eventLog hands records on to the log and keeps those that are events. It is used by many goroutines.
type eventLog struct {
	slog.Handler
	kept  *keptEvents
	attrs []slog.Attr // of loggers made from this one
}

type keptEvents struct {
	mu   sync.Mutex
	list []Event // the oldest first
}

func newEventLog(h slog.Handler) *eventLog { return &eventLog{Handler: h, kept: &keptEvents{}} }

// Handle implements slog.Handler.
func (e *eventLog) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelWarn || slices.Contains(told, r.Message) {
		e.kept.add(Event{At: r.Time, Level: r.Level.String(), Text: e.words(r), Times: 1})
	}
	if !e.Handler.Enabled(ctx, r.Level) {
		return nil
	}
	return e.Handler.Handle(ctx, r)
}

// Enabled implements slog.Handler: what the log leaves out may be an event.
func (e *eventLog) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

// WithAttrs implements slog.Handler.
func (e *eventLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &eventLog{e.Handler.WithAttrs(attrs), e.kept, append(slices.Clone(e.attrs), attrs...)}
}

// WithGroup implements slog.Handler.
func (e *eventLog) WithGroup(name string) slog.Handler {
	return &eventLog{e.Handler.WithGroup(name), e.kept, e.attrs}
}

// maxEventText cuts the text of an event, which a child may have written.
const maxEventText = 300

// words are a record in one line.
func (e *eventLog) words(r slog.Record) string {
	values := map[string]string{}
	for _, a := range e.attrs {
		values[a.Key] = a.Value.String()
	}
	r.Attrs(func(a slog.Attr) bool {
		values[a.Key] = a.Value.String()
		return true
	})
	var parts []string
	for _, key := range shown {
		if v := values[key]; v != "" {
			parts = append(parts, strings.ReplaceAll(key, "_", " ")+" "+v)
		}
	}
	text := strings.Join(append([]string{r.Message}, strings.Join(parts, ", ")), ": ")
	text = strings.TrimSuffix(text, ": ")
	if len(text) > maxEventText {
		text = strings.ToValidUTF8(text[:maxEventText], "") + "…"
	}
	return text
}

func (k *keptEvents) add(x Event) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if n := len(k.list); n > 0 && k.list[n-1].Text == x.Text {
		k.list[n-1].At = x.At
		k.list[n-1].Times++
		return
	}
	if len(k.list) == maxEvents {
		k.list = slices.Delete(k.list, 0, 1)
	}
	k.list = append(k.list, x)
}

// all are a copy of the events, the newest first.
func (k *keptEvents) all() []Event {
	k.mu.Lock()
	defer k.mu.Unlock()
	list := slices.Clone(k.list)
	slices.Reverse(list)
	return list
}

// String is the event for people who read text.
func (x Event) String() string {
	times := ""
	if x.Times > 1 {
		times = fmt.Sprintf(" (%d times)", x.Times)
	}
	return fmt.Sprintf("%s %-5s %s%s", x.At.Format(time.TimeOnly), x.Level, x.Text, times)
}
