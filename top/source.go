package top

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"syscall"
	"time"

	"rankd/supervisor"
)

// Reading is a server at one time.
type Reading struct {
	Status  supervisor.Status
	Samples []supervisor.Sample
	At      time.Time
}

const (
	readLimit = 2 * time.Second
	maxBody   = 8 << 20
)

// Read asks the server whose metrics are at address ("host:port").
func Read(ctx context.Context, address string) (*Reading, error) {
	ctx, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	r := &Reading{At: time.Now()}
	if err := get(ctx, address, "json", &r.Status); err != nil {
		return nil, err
	}
	return r, get(ctx, address, "history", &r.Samples)
}

func get(ctx context.Context, address, format string, into any) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("read status at %s: %w", address, err)
		}
	}()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/statusz?format="+format, nil)
	if err != nil {
		return err
	}
	reply, err := http.DefaultClient.Do(request)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return errors.New("nothing listens there: start a server, or name with --http the address that it was given with its own --http")
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, reply.Body.Close()) }()
	if reply.StatusCode != http.StatusOK {
		return fmt.Errorf("got %s, want 200: is it the --http address of a rankd server?", reply.Status)
	}
	return json.NewDecoder(io.LimitReader(reply.Body, maxBody)).Decode(into)
}
