package supervisor

import (
	"errors"

	"rankd/internal/config"
)

var (
	// ErrServed is wrapped when another server lives at the address or under the instance name.
	ErrServed = errors.New("already served")
	// ErrBadConfig is wrapped when a child refused its configuration: another start would end the same way.
	ErrBadConfig = config.ErrBad
	// errSpoilt ends a run of the loop after which the tables are to be loaded again.
	errSpoilt = errors.New("tables in memory are damaged")
	// ErrCut is returned when a drain ended by killing processes, which cuts calls off.
	ErrCut = errors.New("drain was cut off")
)
