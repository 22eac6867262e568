package launch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Status is what rankd says of itself, as far as measurements need it.
type Status struct {
	Tables struct {
		Pages string `json:"pages"` // that they really lie on
	} `json:"tables"`
	Processes []struct {
		Role string `json:"role"`
		PID  int    `json:"pid"` // 0: none
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

// Threads is how many threads a frontend runs at once; 0: not known.
func (s *Status) Threads() int {
	for _, p := range s.Processes {
		if p.Role == "frontend" && p.PID != 0 {
			return threads(p.PID)
		}
	}
	return 0
}

// threads is the GOMAXPROCS that a process was started with, or else the number of processors that it may run on, which Go takes then.
func threads(pid int) int {
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return 0
	}
	for line := range strings.SplitSeq(string(env), "\x00") {
		if text, ok := strings.CutPrefix(line, "GOMAXPROCS="); ok {
			if n, err := strconv.Atoi(text); err == nil && n > 0 {
				return n
			}
		}
	}
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(pid, &set); err != nil {
		return 0
	}
	return set.Count()
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
