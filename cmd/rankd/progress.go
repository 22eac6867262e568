package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"time"

	"rankd/internal/config"
)

// progressLine shows how far long work has come: one line that is rewritten on a terminal, a line every few seconds elsewhere.
type progressLine struct {
	mu       sync.Mutex
	out      io.Writer
	what     string
	began    time.Time
	told     time.Time
	every    time.Duration
	rewrites bool
}

func newProgressLine(out io.Writer, what string) *progressLine {
	p := &progressLine{out: out, what: what, began: time.Now(), every: 5 * time.Second}
	if f, ok := out.(*os.File); ok && isTerminal(f) {
		p.rewrites, p.every = true, 100*time.Millisecond
	}
	p.told = p.began
	return p
}

// bytes may be called from any goroutine.
func (p *progressLine) bytes(done, total int64) {
	p.share(done, total, config.Bytes(total).Human())
}

// count is bytes for things that are no bytes.
func (p *progressLine) count(done, total int64) { p.share(done, total, strconv.FormatInt(total, 10)) }

func (p *progressLine) share(done, total int64, all string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if now.Sub(p.told) < p.every || total <= 0 {
		return
	}
	p.told = now
	end := "\n"
	if p.rewrites {
		end = "\r"
	}
	fmt.Fprintf(p.out, "%s: %3d %% of %s, %.0f s%s", p.what, 100*done/total, all, now.Sub(p.began).Seconds(), end)
}

// end clears a line that was rewritten.
func (p *progressLine) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rewrites {
		fmt.Fprint(p.out, "\r\033[K")
	}
}

// newProgressLog returns a progress function that logs a line every few seconds. It is called from one goroutine at a time.
func newProgressLog(log *slog.Logger) func(done, total int64) {
	told := time.Now()
	return func(done, total int64) {
		now := time.Now()
		if now.Sub(told) < 2*time.Second || total <= 0 {
			return
		}
		told = now
		log.Info("loading tables", "percent", 100*done/total, "of", config.Bytes(total).Human())
	}
}
