package ahead

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"time"

	"rankd/deviceowner/device"
	"rankd/deviceowner/executor"
	"rankd/deviceowner/pjrt"
	"rankd/deviceowner/pjrt/execache"
	"rankd/model"
)

// event is what the child says. One field group is set.
type event struct {
	Target string // first of all: what is compiled for

	Begun   int // a batch size
	Bucket  int // a batch size that is compiled, and the rest
	Seconds float64
	Key     execache.Key
	Image   []byte

	Failed string // last of all
	Done   bool   // else this
}

// Child compiles every batch size and writes events. It is the work of the child's process. Its error means that the events
// cannot be written; any other is an event.
func Child(ctx context.Context, b *model.Bundle, s Settings, events io.Writer) error {
	e := gob.NewEncoder(events)
	tell := func(ev event) error {
		if err := e.Encode(ev); err != nil {
			return &untold{err}
		}
		return nil
	}
	err := compileAll(ctx, b, &s, tell)
	var broken *untold
	switch {
	case errors.As(err, &broken):
		return err
	case err != nil:
		return tell(event{Failed: err.Error()})
	}
	return tell(event{Done: true})
}

// untold is an error of writing events.
type untold struct{ err error }

func (u *untold) Error() string { return fmt.Sprintf("tell of a compilation: %v", u.err) }
func (u *untold) Unwrap() error { return u.err }

// compiler makes images for a target.
type compiler interface {
	Name() string
	compile(ctx context.Context, bucket int) (execache.Key, []byte, error)
	Close() error
}

func compileAll(ctx context.Context, b *model.Bundle, s *Settings, tell func(event) error) (err error) {
	c, err := open(b, s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if err := tell(event{Target: c.Name()}); err != nil {
		return err
	}
	for _, bucket := range s.bucketsFor(b.Manifest) {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("compile bucket %d: %w", bucket, err)
		}
		if err := tell(event{Begun: bucket}); err != nil {
			return err
		}
		began := time.Now()
		key, image, err := c.compile(ctx, bucket)
		if err != nil {
			return err
		}
		if err := tell(event{Bucket: bucket, Seconds: time.Since(began).Seconds(), Key: key, Image: image}); err != nil {
			return err
		}
	}
	return nil
}

func open(b *model.Bundle, s *Settings) (compiler, error) {
	if s.Topology != "" {
		t, err := pjrt.OpenTarget(pjrt.TargetOptions{
			PluginPath: s.Plugin, Platform: s.Platform, Topology: s.Topology, ScoreBytes: b.Manifest.ScoreBytes(),
		})
		if err != nil {
			return nil, err
		}
		return &elsewhere{t, b}, nil
	}
	e, err := device.Open(b, device.Options{Kind: device.KindPJRT, Platform: s.Platform, Plugin: s.Plugin, Threads: s.Threads})
	if err != nil {
		return nil, err
	}
	return &here{e}, nil
}

// elsewhere compiles for a topology.
type elsewhere struct {
	*pjrt.Target
	bundle *model.Bundle
}

func (c *elsewhere) compile(_ context.Context, bucket int) (execache.Key, []byte, error) {
	text, err := c.bundle.ProgramText(bucket)
	if err != nil {
		return execache.Key{}, nil, err
	}
	return c.Compile(bucket, text)
}

// here compiles on the device of this machine.
type here struct{ executor.Executor }

func (c *here) compile(ctx context.Context, bucket int) (execache.Key, []byte, error) {
	if err := c.Compile(ctx, bucket); err != nil {
		return execache.Key{}, nil, err
	}
	return c.Executor.(device.Exporter).Export(bucket)
}
