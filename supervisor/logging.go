package supervisor

import (
	"log/slog"
	"math"
	"time"
)

// seconds is a duration in a log record, to the millisecond; the name gets its unit. A slog.Duration would be a bare number of
// nanoseconds in JSON.
func seconds(name string, d time.Duration) slog.Attr {
	return slog.Float64(name+"_seconds", math.Round(d.Seconds()*1e3)/1e3)
}
