package main

import (
	"context"
	"errors"
	"fmt"

	"rankd/internal/config"
	"rankd/model"
	"rankd/supervisor"
)

// loader is supervisor.Deps.LoadTables.
type loader func(ctx context.Context, instance string, progress func(done, total int64)) (*supervisor.Tables, error)

// verifying makes load also verify the weights and programs of the bundle, beside the tables, which verify themselves. A file
// that differs is bad configuration. Once they were right they are not read again: a server that works does not end because
// somebody has touched the bundle, and a device owner that is started again does not wait for them.
func verifying(b *model.Bundle, load loader) loader {
	verified := false // the supervisor loads once at a time
	return func(ctx context.Context, instance string, progress func(done, total int64)) (*supervisor.Tables, error) {
		if verified {
			return load(ctx, instance, progress)
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		network := make(chan error, 1)
		go func() {
			err := b.VerifyNetwork(ctx)
			if err != nil {
				if ctx.Err() == nil {
					err = fmt.Errorf("%w: %w", config.ErrBad, err)
				}
				cancel() // no need to load
			}
			network <- err
		}()
		t, err := load(ctx, instance, progress)
		if err != nil {
			cancel()
		}
		wrong := <-network
		if wrong != nil && (err == nil || errors.Is(wrong, config.ErrBad)) {
			return nil, errors.Join(wrong, release(t))
		}
		if err != nil {
			return nil, err
		}
		verified = true
		return t, nil
	}
}

// release gives up tables that were loaded for nothing. Kept ones stay, as they were.
func release(t *supervisor.Tables) error {
	if t == nil {
		return nil
	}
	var err error
	if t.Remove != nil && !t.Memory.Attached {
		err = t.Remove()
	}
	return errors.Join(err, t.Close())
}
