package e2e

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"rankd/supervisor"
)

// status reads the status page as JSON; nil if it cannot be had.
func (s *server) status() *supervisor.Status {
	code, text, err := s.get("/statusz?format=json")
	if err != nil || code != 200 {
		return nil
	}
	st := &supervisor.Status{}
	if err := json.Unmarshal([]byte(text), st); err != nil {
		s.t.Fatalf("decode status: %v", err)
	}
	return st
}

// scrape is one reading of /metrics: values by series, as written.
type scrape map[string]float64

func (s *server) scrape() scrape {
	s.t.Helper()
	code, text, err := s.get("/metrics")
	if err != nil || code != 200 {
		s.t.Fatalf("scrape metrics: got %d, %v", code, err)
	}
	values := scrape{}
	for _, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(line, "#") || line == "" {
			continue
		}
		at := strings.LastIndexByte(line, ' ')
		v, err := strconv.ParseFloat(line[at+1:], 64)
		if err != nil {
			s.t.Fatalf("scrape metrics: line %q: %v", line, err)
		}
		values[line[:at]] = v
	}
	return values
}

// sum adds up the series of a name whose labels have all the words given.
func (m scrape) sum(name string, words ...string) float64 {
	total := 0.0
series:
	for _, series := range slices.Sorted(maps.Keys(m)) {
		if series != name && !strings.HasPrefix(series, name+"{") {
			continue
		}
		for _, w := range words {
			if !strings.Contains(series, w) {
				continue series
			}
		}
		total += m[series]
	}
	return total
}

// ok is the number of requests that were scored.
func (m scrape) ok() float64 { return m.sum("rankd_requests_total", `outcome="ok"`) }

// falls lists the counters of rankd that are lower in later than in m, or gone.
func (m scrape) falls(later scrape) []string {
	var out []string
	for _, series := range slices.Sorted(maps.Keys(m)) {
		name, _, _ := strings.Cut(series, "{")
		counter := strings.HasSuffix(name, "_total") || strings.HasSuffix(name, "_bucket") || strings.HasSuffix(name, "_count") || strings.HasSuffix(name, "_sum")
		if !strings.HasPrefix(name, "rankd_") || !counter {
			continue
		}
		if now, there := later[series]; !there || now < m[series] {
			out = append(out, series)
		}
	}
	return out
}
