package main

import (
	"fmt"
	"log/slog"

	"rankd/deviceowner/device"
	"rankd/internal/placement"
	"rankd/internal/topology"
	"rankd/model"
	"rankd/tables"
)

// checkPlacement decides where everything is to be. The bundle may be nil.
func (c *serveConfig) checkPlacement(b *model.Bundle) (err error) {
	c.plan, err = c.place("", "self", b)
	return err
}

// place decides where processes run and memory lies, on the machine whose files lie below root, within what a process there is allowed.
// The bundle may be nil: then the size of the tables is not known.
func (c *serveConfig) place(root, process string, b *model.Bundle) (*placement.Plan, error) {
	m, err := topology.Read(root)
	if err != nil {
		return nil, fmt.Errorf("check --placement: %w", err)
	}
	a, err := topology.Allowed(root, process, m)
	if err != nil {
		return nil, fmt.Errorf("check --placement: %w", err)
	}
	return placement.Make(c.placementRequest(root, b), m, a)
}

func (c *serveConfig) placementRequest(root string, b *model.Bundle) placement.Request {
	r := placement.Request{
		Placement: c.supervisor.Placement, Tables: c.supervisor.TablesPlacement, Frontends: c.supervisor.Frontends,
		OwnerCPUs: topology.SetOf(c.owner.OwnerCPUs...), OnHost: c.owner.OnHost(), DeviceThreads: c.owner.DeviceThreads,
	}
	if c.owner.Executor == device.KindPJRT {
		r.Devices = topology.NodesOfAccelerators(topology.Accelerators(root, c.owner.Platform))
	}
	if b == nil {
		return r
	}
	r.SlabBytes = int64(c.geometry(b.Manifest).Bytes())
	if bytes, err := tables.SegmentBytes(b.Manifest); err == nil {
		r.TableBytes = bytes
	}
	return r
}

// logPlacement tells what was decided.
func logPlacement(log *slog.Logger, p *placement.Plan) {
	log.Info("placement", "asked", p.Asked, "asked_tables", p.AskedTables, "cpus", p.CPUs.String(), "nodes", p.Nodes.String(), "plan", p.Lines())
}
