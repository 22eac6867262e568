package ahead

import (
	"errors"
	"fmt"

	"rankd/internal/config"
	"rankd/model"
)

// EventFD is the child's descriptor for events.
const EventFD = 3

// Settings is what a person may say about a compilation. The parent hands it to the child.
type Settings struct {
	Platform string `flag:"platform" oneof:"cpu|cuda|tpu" help:"which PJRT plugin compiles"`
	Plugin   string `flag:"plugin" unit:"file" help:"path of the PJRT plugin; empty: the installed one of the platform"`
	Topology string `flag:"topology" help:"devices to compile for where there is none, as the plugin names them: v6e:1x1 is one chip of TPU v6e; empty: the device of this machine"`
	Threads  int    `flag:"device-threads" min:"0" max:"1024" unit:"threads" help:"threads of the cpu platform, as rankd serve will have them; 0: as many as this process may use"`
	Buckets  []int  `flag:"buckets" unit:"rows" help:"batch sizes to compile, ascending; empty: those of the model"`
}

// Validate returns every violation.
func (s *Settings) Validate() error {
	errs := []error{config.Check(s)}
	for i, b := range s.Buckets {
		if b < 1 || i > 0 && b <= s.Buckets[i-1] {
			errs = append(errs, fmt.Errorf("check --buckets: got %v, want positive batch sizes in ascending order", s.Buckets))
			break
		}
	}
	return errors.Join(errs...)
}

func (s *Settings) bucketsFor(m *model.Manifest) []int {
	if len(s.Buckets) > 0 {
		return s.Buckets
	}
	return m.Buckets
}
