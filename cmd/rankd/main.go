package main

import (
	"context"
	"errors"
	"fmt"
	"os"

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
	if errors.Is(err, context.Canceled) {
		err = fmt.Errorf("interrupted: %w", err)
	}
	fmt.Fprintln(os.Stderr, "rankd:", err)
	os.Exit(int(code))
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
