package executor_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"rankd/deviceowner/executor"
)

func TestPermanentLeavesPassingErrorsAlone(t *testing.T) {
	if err := executor.Permanent(nil); err != nil {
		t.Errorf("nil: got %v", err)
	}
	for err, want := range map[error]bool{
		os.ErrNotExist:           true,
		errors.New("wrong form"): true,
		unix.EACCES:              true,
		unix.ENOMEM:              false,
		unix.EMFILE:              false,
		context.Canceled:         false,
		executor.ErrDead:         false,
		&os.PathError{Op: "open", Path: "x", Err: unix.EIO}: false,
	} {
		wrapped := fmt.Errorf("open file: %w", err)
		marked := executor.Permanent(wrapped)
		if got := errors.Is(marked, executor.ErrPermanent); got != want {
			t.Errorf("%v: permanent: got %v, want %v", err, got, want)
		}
		if !errors.Is(marked, err) || marked.Error() != wrapped.Error() {
			t.Errorf("%v: got %v, want the same text and cause", err, marked)
		}
	}
}
