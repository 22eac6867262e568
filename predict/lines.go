package predict

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
)

// maxLine bounds a line of a text file, in bytes.
const maxLine = 16 << 20

// lineSource reads one example a line.
type lineSource struct {
	name   string
	file   io.ReadCloser
	lines  *bufio.Scanner
	number int // of the line that was read last, from 1
	first  int64
	schema *Schema
	parse  func(line []byte, r *rows) error // errors name column, got and want
	failed error                            // what Next returns after the rows before it
}

func openLines(name string, s *Schema, parse func([]byte, *rows) error) (Source, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("open examples: %w", err)
	}
	return newLines(name, f, s, parse), nil
}

func newLines(name string, f io.ReadCloser, s *Schema, parse func([]byte, *rows) error) *lineSource {
	lines := bufio.NewScanner(f)
	lines.Buffer(make([]byte, 64<<10), maxLine)
	return &lineSource{name: name, file: f, lines: lines, schema: s, parse: parse}
}

// Next stops at a line that can't be read: the rows before it come first, then its error.
func (l *lineSource) Next(limit int) (*Batch, error) {
	r := newRows(l.schema)
	for l.failed == nil && r.n < limit {
		l.failed = l.one(r)
	}
	if r.n == 0 {
		return nil, l.failed
	}
	b := r.batch(l.first)
	l.first += int64(r.n)
	return b, nil
}

// one adds the example of the next line that is not empty; io.EOF after the last.
func (l *lineSource) one(r *rows) error {
	for l.lines.Scan() {
		l.number++
		line := l.lines.Bytes()
		if len(line) == 0 {
			continue
		}
		mark := r.mark()
		if err := l.parse(line, r); err != nil {
			r.rollback(mark)
			return fmt.Errorf("read %s line %d: %w", l.name, l.number, err)
		}
		r.n++
		r.lines = append(r.lines, l.number)
		return nil
	}
	if err := l.lines.Err(); err != nil {
		if errors.Is(err, bufio.ErrTooLong) {
			err = fmt.Errorf("got a line of more than %d bytes, want less", maxLine)
		}
		return fmt.Errorf("read %s line %d: %w", l.name, l.number+1, err)
	}
	return io.EOF
}

func (l *lineSource) Close() error { return l.file.Close() }
