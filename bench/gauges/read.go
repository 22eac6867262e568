package gauges

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// Read reads metrics of a server's status page by their names. Series of one name are added up; what is not there is not in the map.
func Read(ctx context.Context, address string, names ...string) (map[string]float64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", nil)
	if err != nil {
		return nil, fmt.Errorf("read metrics: %w", err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("read metrics: %w", err)
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("read metrics of %s: got status %d", address, r.StatusCode)
	}
	found := map[string]float64{}
	in := bufio.NewScanner(r.Body)
	for in.Scan() {
		series, value, ok := strings.Cut(in.Text(), " ")
		if strings.HasPrefix(series, "#") || !ok {
			continue
		}
		name, _, _ := strings.Cut(series, "{")
		if !slices.Contains(names, name) {
			continue
		}
		v, err := strconv.ParseFloat(strings.Fields(value)[0], 64)
		if err != nil {
			return nil, fmt.Errorf("read metrics of %s: %q: %w", address, in.Text(), err)
		}
		found[name] += v
	}
	if err := in.Err(); err != nil {
		return nil, fmt.Errorf("read metrics of %s: %w", address, err)
	}
	return found, nil
}
