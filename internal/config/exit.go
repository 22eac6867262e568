package config

import "strconv"

// ExitCode is what a child's exit status means to the supervisor's restart policy.
type ExitCode int

const (
	ExitOK            ExitCode = 0 // asked to stop, and stopped in order
	ExitError         ExitCode = 1 // anything that a restart may mend
	ExitBadConfig     ExitCode = 2 // the same arguments would end the same way: not restarted
	ExitCorruptRegion ExitCode = 3 // shared memory broke an invariant: everything that maps it is rebuilt
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
