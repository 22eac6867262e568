package supervisor

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"slices"
	"time"
)

// maxLogLine cuts a child's line of output; what is longer is passed on in pieces.
const maxLogLine = 64 << 10

// relayLogs passes on what a child writes: its JSON log records as records of ours with role, index, pid and epoch added,
// anything else, such as the stack of a crash, as text. It returns when the child and whoever has its output are gone.
func relayLogs(log *slog.Logger, p *process, output *os.File) {
	defer output.Close()
	log = log.With(slog.String("role", p.place.role), slog.Int("index", p.place.index),
		slog.Int("pid", p.PID), slog.Uint64("epoch", uint64(p.incarnation)))
	lines := bufio.NewReaderSize(output, maxLogLine)
	for {
		line, err := lines.ReadSlice('\n')
		if line = bytes.TrimRight(line, "\r\n"); len(line) > 0 {
			emit(log, &p.words, line)
		}
		if err != nil && err != bufio.ErrBufferFull {
			if err != io.EOF {
				log.Warn("output of child cannot be read", slog.Any("error", err))
			}
			return
		}
	}
}

// emit passes a line on and takes note of it if it may be the child's last words.
func emit(log *slog.Logger, words *lastWords, line []byte) {
	ctx := context.Background()
	var fields map[string]any
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.UseNumber()
	if line[0] != '{' || decoder.Decode(&fields) != nil {
		words.hear(string(line))
		log.LogAttrs(ctx, slog.LevelError, "output of child", slog.String("text", string(line)))
		return
	}
	when, level := time.Now(), slog.LevelInfo
	if text, ok := fields[slog.TimeKey].(string); ok {
		if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
			when = t
		}
	}
	if text, ok := fields[slog.LevelKey].(string); ok {
		_ = level.UnmarshalText([]byte(text))
	}
	message, _ := fields[slog.MessageKey].(string)
	if level >= slog.LevelError {
		cause, _ := fields["error"].(string)
		words.record(message, cause)
	}
	if !log.Enabled(ctx, level) {
		return
	}
	record := slog.NewRecord(when, level, message, 0)
	names := make([]string, 0, len(fields))
	for name := range fields {
		if name != slog.TimeKey && name != slog.LevelKey && name != slog.MessageKey {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		record.AddAttrs(slog.Any(name, fields[name]))
	}
	_ = log.Handler().Handle(ctx, record)
}
