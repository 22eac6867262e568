package executor

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"
)

// ErrPermanent marks errors of opening a device and of Compile that the same options, files and program bring again: nobody
// should try anew before somebody has changed something.
var ErrPermanent = errors.New("permanent")

// passing are what the system says when it lacks something at this moment, or was interrupted.
var passing = []error{
	unix.ENOMEM, unix.ENOSPC, unix.EMFILE, unix.ENFILE, unix.EAGAIN, unix.EINTR, unix.EIO, unix.ESTALE, unix.ETIMEDOUT,
	context.Canceled, context.DeadlineExceeded, ErrDead,
}

// Permanent marks err with ErrPermanent and leaves its text as it is. It leaves nil, and an error whose cause is a passing
// state of the system, such as a lack of memory or descriptors, unmarked.
func Permanent(err error) error {
	if err == nil || errors.Is(err, ErrPermanent) {
		return err
	}
	for _, p := range passing {
		if errors.Is(err, p) {
			return err
		}
	}
	return &permanent{err}
}

type permanent struct{ error }

func (p *permanent) Unwrap() error        { return p.error }
func (p *permanent) Is(target error) bool { return target == ErrPermanent }
