package supervisor

import (
	"log/slog"
	"sync/atomic"

	"rankd/internal/stats"
	"rankd/internal/steer"
)

// steering spreads new connections over the frontends.
type steering struct {
	*steer.Group
	page *stats.Page
	dead []atomic.Bool // by frontend (I9). At the start none is, so that early connections are spread over all
}

// newSteering has the connections spread as --steering asks. Preconditions: the sockets are bound and do not listen yet.
func newSteering(s *server) (*steering, error) {
	t := &steering{page: s.page, dead: make([]atomic.Bool, s.cfg.Frontends)}
	var err error
	t.Group, err = steer.Attach(steer.Options{
		Policy: steer.Policy(s.cfg.Steering), Sockets: s.listeners.fds, Load: t.load, Log: s.log,
	})
	if err != nil {
		return nil, err
	}
	say, state := s.log.Info, t.State()
	if state.Fallback {
		say = s.log.Warn
	}
	say("connections are steered", slog.String("policy", string(state.Policy)), slog.String("by", string(state.Mechanism)), slog.String("why", state.Why))
	return t, nil
}

// set tells whether a frontend is there to take connections. When it returns, new connections go accordingly.
func (t *steering) set(frontend int, live bool) {
	t.dead[frontend].Store(!live)
	t.Renew()
}

// load is what a frontend has. It is called from the loop and from the steering's own goroutine.
func (t *steering) load(frontend int) steer.Load {
	block := t.page.Frontend(frontend)
	l := steer.Load{Live: !t.dead[frontend].Load() && block.Gauge(stats.Draining) == 0}
	for range 3 { // two words that belong together
		l.Accepted, l.Open = block.Load(stats.Connections), block.Gauge(stats.OpenConnections)
		if l.Accepted == block.Load(stats.Connections) {
			break
		}
	}
	return l
}
