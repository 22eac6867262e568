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
// The bundle may be nil: then the size of the tables is not known. Where the machine does not tell of itself, as in some sandboxes, the
// kernel decides, unless somebody has asked for something.
func (c *serveConfig) place(root, process string, b *model.Bundle) (*placement.Plan, error) {
	request := c.placementRequest(root, b)
	m, err := topology.Read(root)
	var a *topology.Allowance
	if err == nil {
		a, err = topology.Allowed(root, process, m)
	}
	switch {
	case err == nil:
		return placement.Make(request, m, a)
	case request.Placement == placement.Auto && request.Tables == placement.Auto && len(request.OwnerCPUs) == 0:
		return placement.Blind(request, err), nil
	}
	return nil, fmt.Errorf("check --placement: %w", err)
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
