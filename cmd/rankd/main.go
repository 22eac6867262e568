package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"rankd/internal/config"
)

func main() {
	err := newRoot().ExecuteContext(context.Background())
	if err == nil {
		return
	}
	code := config.ExitError
	var coded *exitError
	if errors.As(err, &coded) {
		code = coded.code
	}
	fmt.Fprintln(os.Stderr, "rankd:", errorText(err))
	os.Exit(int(code))
}

// errorText is what a person reads of an error: each line once, however many parts of a command ran into the same, and an interruption
// as what was interrupted.
func errorText(err error) string {
	var lines []string
	for line := range strings.Lines(err.Error()) {
		line = strings.TrimSuffix(line, "\n")
		if errors.Is(err, context.Canceled) {
			line = strings.TrimSuffix(strings.TrimSuffix(line, context.Canceled.Error()), ": ")
		}
		if line != "" && !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	text := strings.Join(lines, "\n")
	switch {
	case !errors.Is(err, context.Canceled):
		return text
	case text == "":
		return "interrupted"
	}
	return "interrupted: " + text
}

// exitError is an error with an exit code of its own.
type exitError struct {
	error
	code config.ExitCode
}

func (e *exitError) Unwrap() error { return e.error }

// withCode gives a non-nil error an exit code.
func withCode(err error, code config.ExitCode) error {
	if err == nil {
		return nil
	}
	return &exitError{err, code}
}
