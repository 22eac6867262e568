package sim

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"rankd/internal/faults"
)

// FaultsVariable is the environment variable that a build with the tag "faults" reads: a list of key=value joined by ",",
// such as "delay=20ms,fail=3,poison=12345,poison-action=crash".
const FaultsVariable = "RANKD_SIM_FAULTS"

// Faults are what a test wants to go wrong. The zero value is none.
type Faults struct {
	Delay  time.Duration // delay=DURATION: every launch takes this much longer
	FailAt uint64        // fail=N: the N-th launch fails, counted from 1
	DeadAt uint64        // dead=N: the N-th launch and all after it fail with executor.ErrDead
	HangAt uint64        // hang=N: the N-th launch does not end before Close

	// Poison is a value that makes a launch go wrong if any dense value of its rows has it (any pooled column 0 in a model
	// without dense inputs), so that a client can choose the row. poison=NUMBER
	Poison       *float32
	PoisonAction PoisonAction // poison-action=fail|crash|hang

	// Only says in which process the others count, such as "deviceowner#1"; "" is every one. only=PROCESS
	Only string
}

// PoisonAction is what a poisoned row does.
type PoisonAction string

// The poison actions. The default is to fail the launch.
const (
	PoisonFail  PoisonAction = "fail"
	PoisonCrash PoisonAction = "crash" // the process kills itself with SIGKILL
	PoisonHang  PoisonAction = "hang"
)

// FaultsFromEnv reads FaultsVariable. Without the build tag a set variable is an error: a test that meant to inject a fault
// must not pass without it.
func FaultsFromEnv() (Faults, error) {
	text := os.Getenv(FaultsVariable)
	if text == "" {
		return Faults{}, nil
	}
	if !faults.Enabled {
		return Faults{}, fmt.Errorf("read %s: this build has no fault hooks (tag faults)", FaultsVariable)
	}
	f, err := parseFaults(text)
	if err != nil || faults.Am(f.Only) {
		return f, err
	}
	return Faults{}, nil
}

func parseFaults(text string) (f Faults, err error) {
	for _, item := range strings.Split(text, ",") {
		key, v, _ := strings.Cut(item, "=")
		switch key {
		case "delay":
			f.Delay, err = time.ParseDuration(v)
		case "fail":
			f.FailAt, err = strconv.ParseUint(v, 10, 64)
		case "dead":
			f.DeadAt, err = strconv.ParseUint(v, 10, 64)
		case "hang":
			f.HangAt, err = strconv.ParseUint(v, 10, 64)
		case "poison":
			var x float64
			x, err = strconv.ParseFloat(v, 32)
			p := float32(x)
			f.Poison = &p
		case "only":
			f.Only = v
		case "poison-action":
			f.PoisonAction = PoisonAction(v)
			if f.PoisonAction != PoisonFail && f.PoisonAction != PoisonCrash && f.PoisonAction != PoisonHang {
				err = fmt.Errorf("got %q, want fail, crash or hang", v)
			}
		default:
			err = fmt.Errorf("got key %q, want delay, fail, dead, hang, poison, poison-action or only", key)
		}
		if err != nil {
			return Faults{}, fmt.Errorf("parse %s item %q: %w", FaultsVariable, item, err)
		}
	}
	return f, nil
}

// poisoned reports whether any of the rows has the poison value.
func (f *Faults) poisoned(l *Layout, arrays [][]byte, rows int) bool {
	if f.Poison == nil {
		return false
	}
	watched := l.scalars[l.dense:]
	if len(watched) == 0 {
		watched = l.scalars
	}
	for r := range rows {
		for i := range watched {
			p := &watched[i]
			if p.value(arrays[p.array], r*l.strides[p.array]+p.offset) == *f.Poison {
				return true
			}
		}
	}
	return false
}
