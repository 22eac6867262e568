package config

import (
	"errors"
	"strconv"
)

// ErrBad marks errors that the same arguments would bring again.
var ErrBad = errors.New("bad configuration")

// CodeOf is the exit code of a role that ended with err; corrupt says that the shared region is to blame.
func CodeOf(err error, corrupt bool) ExitCode {
	switch {
	case err == nil:
		return ExitOK
	case errors.Is(err, ErrBad):
		return ExitBadConfig
	case corrupt:
		return ExitCorruptRegion
	}
	return ExitError
}

// ExitCode is what a child's exit status means to the supervisor's restart policy.
type ExitCode int

const (
	ExitOK            ExitCode = 0 // asked to stop, and stopped in order
	ExitError         ExitCode = 1 // anything that a restart may mend
	ExitCorruptRegion ExitCode = 3 // shared memory broke an invariant: everything that maps it is rebuilt
	// ExitBadConfig: the same arguments would end the same way, so no restart. It is EX_CONFIG of sysexits.h, and not 2: the
	// Go runtime ends a program that has crashed with 2, and a crash must be restarted.
	ExitBadConfig ExitCode = 78
)

// String names the code for logs.
func (e ExitCode) String() string {
	switch e {
	case ExitOK:
		return "ok"
	case ExitError:
		return "error"
	case ExitBadConfig:
		return "bad_configuration"
	case ExitCorruptRegion:
		return "corrupt_region"
	}
	return "exit_" + strconv.Itoa(int(e))
}
