package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"rankd/internal/placement"
	"rankd/internal/procmem"
	"rankd/internal/topology"
	"rankd/model"
	"rankd/supervisor"
	"rankd/tables"
)

// loadTables makes or finds the tables, each copy on its nodes.
func (c *serveConfig) loadTables(ctx context.Context, b *model.Bundle, instance string, progress func(done, total int64), log *slog.Logger) (*supervisor.Tables, error) {
	shown := newProgressLog(log)
	wanted := c.plan.Tables.Copies()
	var copies []tables.Copy
	for _, w := range wanted {
		copies = append(copies, tables.Copy{Label: w.Label, Nodes: w.Nodes})
	}
	o := tables.Options{
		Instance: instance, Dir: c.supervisor.ShmDir, Log: log,
		Progress: func(done, total int64) {
			progress(done, total)
			shown(done, total)
		},
		Room: func(t tables.Copy) error { return c.room(b, t, log) },
	}
	// What a former run left of another model, or elsewhere, goes first: there may be no room for both.
	if _, err := tables.Reclaim(ctx, o, b.Manifest.TablesDigest(), copies...); err != nil {
		return nil, err
	}
	list, err := tables.Acquire(ctx, b, o, copies...)
	if err != nil {
		return nil, blame(b, err)
	}
	var made []supervisor.TableCopy
	for i, s := range list {
		info := s.Info()
		made = append(made, supervisor.TableCopy{FD: int(s.FD().Fd()), Memory: supervisor.Memory{
			Bytes: info.Bytes, HugeBytes: info.Pages.HugeBytes, Pages: info.Pages.String(), Path: s.Path, Attached: !s.Loaded,
			Placement: placement.OnNodes(wanted[i].Nodes).String(), Nodes: effective(log, "tables", wanted[i], s.Nodes),
		}})
	}
	return &supervisor.Tables{
		FD: made[0].FD, Memory: made[0].Memory, More: made[1:],
		Check:  each(list, (*tables.Segment).Check),
		Close:  each(list, (*tables.Segment).Close),
		Remove: each(list, (*tables.Segment).Remove),
	}, nil
}

// each does the same to every segment, and joins what goes wrong.
func each(list []*tables.Segment, do func(*tables.Segment) error) func() error {
	return func() error {
		var errs []error
		for _, s := range list {
			errs = append(errs, do(s))
		}
		return errors.Join(errs...)
	}
}

// room finds out whether the nodes of a copy have room for it. Where nobody has asked for just these nodes it is said, and the kernel
// takes the rest from others.
func (c *serveConfig) room(b *model.Bundle, t tables.Copy, log *slog.Logger) error {
	bytes, err := tables.SegmentBytes(b.Manifest)
	if err != nil || len(t.Nodes) == 0 {
		return err
	}
	m, err := topology.Read("")
	if err != nil {
		return err
	}
	full := placement.Room(m, t.Nodes, bytes)
	if full != nil && c.supervisor.TablesPlacement == placement.Auto {
		log.Warn("nodes of the tables have too little free memory: some of it will lie elsewhere", "why", full.Error())
		return nil
	}
	if full != nil {
		return fmt.Errorf("check --tables-placement: got %s: %w", c.supervisor.TablesPlacement, full)
	}
	return nil
}

// effective asks the kernel where memory lies, and says so if that is not where it was to be. It gives nil where the kernel does not tell.
func effective(log *slog.Logger, what string, wanted placement.Copy, ask func() (map[int]int64, error)) map[int]int64 {
	nodes, err := ask()
	if err != nil {
		if !errors.Is(err, procmem.ErrNoNUMA) {
			log.Warn("nodes of shared memory are unknown", "what", what, "error", err)
		}
		return nil
	}
	if why := placement.Differs(wanted, nodes); why != "" {
		log.Warn("shared memory does not lie where it was placed", "what", what, "why", why, "bytes_by_node", nodes,
			"next", "free memory on these nodes and start again without kept tables, or choose others with --placement and --tables-placement")
	}
	return nodes
}
