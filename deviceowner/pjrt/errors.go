package pjrt

import (
	"errors"
	"fmt"
	"strings"

	"rankd/deviceowner/executor"
)

var (
	// ErrNotCompiled is wrapped by Launch for a bucket that was not compiled.
	ErrNotCompiled = errors.New("bucket is not compiled")
	// ErrClosed is wrapped by calls after Close.
	ErrClosed = errors.New("executor is closed")
)

// Code is the plugin's status code, with the numbers of absl::StatusCode.
type Code int

const (
	// CodeUnknown is what XLA says of a text that its parser does not take.
	CodeUnknown Code = 2
	// CodeInvalidArgument is what a compiler says of a program that it does not take, and a device of rows of another form.
	CodeInvalidArgument Code = 3
	// CodeResourceExhausted is what a device says when it is out of memory.
	CodeResourceExhausted Code = 8
	// CodeUnimplemented is what a plugin says of programs and options that it does not know.
	CodeUnimplemented Code = 12
)

var codeNames = []string{
	"ok", "cancelled", "unknown", "invalid_argument", "deadline_exceeded", "not_found", "already_exists", "permission_denied",
	"resource_exhausted", "failed_precondition", "aborted", "out_of_range", "unimplemented", "internal", "unavailable",
	"data_loss", "unauthenticated",
}

// String returns the code's name in lower case.
func (c Code) String() string {
	if c < 0 || int(c) >= len(codeNames) {
		return fmt.Sprintf("code %d", int(c))
	}
	return codeNames[c]
}

// Error is what the plugin said.
type Error struct {
	Code    Code
	Message string // as the plugin wrote it, without its source locations, at most about maxMessage bytes
}

func (e *Error) Error() string { return e.Code.String() + ": " + e.Message }

// maxMessage bounds the plugin's text in an error: a compiler may quote the whole program.
const maxMessage = 2000

// newError shortens the plugin's text.
func newError(code int, text string) *Error {
	text, _, _ = strings.Cut(text, "=== Source Location Trace")
	text = strings.TrimSpace(text)
	if len(text) > maxMessage {
		text = text[:maxMessage] + " ..."
	}
	return &Error{Code: Code(code), Message: text}
}

// lasting marks with executor.ErrPermanent what the plugin says of its input rather than of its state.
func lasting(err error) error {
	var e *Error
	if errors.As(err, &e) && (e.Code == CodeInvalidArgument || e.Code == CodeUnimplemented) {
		return executor.Permanent(err)
	}
	return err
}

// refused is lasting for what the compiler says of a program, where CodeUnknown too means the program: it is the code of the
// parser's own messages.
func refused(err error) error {
	var e *Error
	if errors.As(err, &e) && e.Code == CodeUnknown {
		return executor.Permanent(err)
	}
	return lasting(err)
}

// wrong is an error about options, files or programs, which another try would meet again.
func wrong(format string, args ...any) error { return executor.Permanent(fmt.Errorf(format, args...)) }

// suspicious reports whether a failed batch may mean that the whole device is gone, so that it is worth a probe. Running out
// of memory is an ordinary failure of one batch.
func suspicious(err error) bool {
	var e *Error
	return !errors.As(err, &e) || e.Code != CodeResourceExhausted
}
