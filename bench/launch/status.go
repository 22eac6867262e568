package launch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// Status is what rankd says of itself, as far as measurements need it.
type Status struct {
	Tables struct {
		Pages string `json:"pages"` // that they really lie on
	} `json:"tables"`
	Processes []struct {
		Role string `json:"role"`
	} `json:"processes"`
}

// Frontends is how many it has.
func (s *Status) Frontends() (n int) {
	for _, p := range s.Processes {
		if p.Role == "frontend" {
			n++
		}
	}
	return n
}

const statusLimit = 5 * time.Second

// Status asks the server; only rankd can be asked.
func (s *Server) Status(ctx context.Context) (_ *Status, err error) {
	ctx, cancel := context.WithTimeout(ctx, statusLimit)
	defer cancel()
	defer func() {
		if err != nil {
			err = fmt.Errorf("read status page: %w", err)
		}
	}()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.HTTP+"/statusz?format=json", nil)
	if err != nil {
		return nil, err
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Body.Close()) }()
	if r.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("got %s, want 200", r.Status)
	}
	status := &Status{}
	return status, json.NewDecoder(r.Body).Decode(status)
}
