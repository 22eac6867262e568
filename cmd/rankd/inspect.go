package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/spf13/cobra"

	"rankd/internal/config"
	"rankd/shmring"
	"rankd/supervisor"
	"rankd/tables"
)

// inspectConfig says which server is looked at.
type inspectConfig struct {
	RunDir   string `flag:"run-dir" help:"directory of the state file; empty: where serve puts it"`
	Listen   string `flag:"listen" unit:"host:port" help:"address of the server, unless instance is given"`
	Instance string `flag:"instance" help:"name of the server; empty: made from the listening address"`
	ShmDir   string `flag:"shm-dir" help:"directory of the shared memory files; empty: all places where they may lie"`
}

func newInspect() *cobra.Command {
	c := &inspectConfig{Listen: supervisor.Default().Listen}
	cmd := &cobra.Command{
		Use:   "inspect",
		Short: "look into a server from outside, also a hung one",
		Long: `Look into a server through its shared memory. It works without the server's help, so also on
one that hangs; it changes nothing.`,
		GroupID: "tools",
	}
	config.Bind(cmd.PersistentFlags(), c)
	add := func(use, short string, run func(c *inspectConfig, s *supervisor.State, out io.Writer) error) {
		cmd.AddCommand(&cobra.Command{
			Use: use, Short: short, Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				if err := fromEnvironment(cmd.Flags()); err != nil {
					return err
				}
				s, err := c.state()
				if err != nil {
					return fmt.Errorf("inspect %s: %w", use, err)
				}
				if err := run(c, s, cmd.OutOrStdout()); err != nil {
					return fmt.Errorf("inspect %s: %w", use, err)
				}
				return nil
			},
		})
	}
	add("ready", "tell whether the server takes requests; exit code 0 if it does", inspectReady)
	add("ring", "show slabs, roles and what is wrong with them", inspectRing)
	add("tables", "show the tables in memory and their pages", inspectTables)
	add("memory", "show what tables, slabs and each process cost", inspectMemory)
	return cmd
}

func (c *inspectConfig) state() (*supervisor.State, error) {
	s, err := supervisor.FindState(c.RunDir, c.Instance, c.Listen)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("no server at %s: name it with --listen or --instance (and --run-dir if serve was given one): %w", c.Listen, err)
	}
	return s, err
}

func inspectRing(_ *inspectConfig, s *supervisor.State, out io.Writer) error {
	if s.RegionFD < 0 {
		return fmt.Errorf("server %s (pid %d) has no ring yet", s.Instance, s.PID)
	}
	r, err := shmring.AttachPath(s.FDPath(s.RegionFD))
	if err != nil {
		return err
	}
	defer r.Close()
	v := r.View()
	fmt.Fprintf(out, "server %s  pid %d  %s\n", s.Instance, s.PID, s.Listen)
	fmt.Fprintf(out, "ring   %d slabs of %d rows (%s each), strides %v, score bytes %d\n",
		v.Geometry.Slabs, v.Geometry.Capacity, config.Bytes(v.Geometry.SlabBytes()).Human(), v.Geometry.Strides, v.Geometry.ScoreBytes)
	fmt.Fprintf(out, "owner  %s  incarnation %d  pid %d  turns %d  draining %v\n", v.OwnerState, v.OwnerIncarnation, v.OwnerPID, v.Heartbeat, v.Draining)
	fmt.Fprintf(out, "open   %b  waiting for room %b\n\n", v.OpenMask, v.SpaceWaiters)
	fmt.Fprintf(out, "%-5s %-7s %13s %9s %10s %9s %9s %s\n", "slab", "phase", "epoch", "reserved", "committed", "attempts", "entries", "pending")
	for i, b := range v.Slabs {
		fmt.Fprintf(out, "%-5d %-7s %13d %9d %10d %9d %9d %b\n", i, b.Phase, b.Epoch, b.Reserved, b.Committed, b.Attempts, b.Entries, b.Pending)
	}
	fmt.Fprintf(out, "\n%-9s %11s %8s %-5s %12s %s\n", "frontend", "incarnation", "pid", "live", "pending rows", "writers busy")
	for i, f := range v.Frontends {
		fmt.Fprintf(out, "%-9d %11d %8d %-5v %12d %d\n", i, f.Incarnation, f.PID, f.Live, f.PendingRows, f.OddWriters)
	}
	bad := r.Check(false)
	if len(bad) == 0 {
		fmt.Fprintln(out, "\ncheck: sound")
		return nil
	}
	for _, line := range bad {
		fmt.Fprintln(out, "check:", line)
	}
	return fmt.Errorf("%d words can't be right", len(bad))
}

func inspectTables(c *inspectConfig, s *supervisor.State, out io.Writer) error {
	list, err := tables.List(s.Instance, c.ShmDir)
	if err != nil {
		return err
	}
	for _, t := range list {
		fmt.Fprintf(out, "%s\n", t.Path)
		if t.Problem != "" {
			fmt.Fprintf(out, "  unusable: %s\n", t.Problem)
			continue
		}
		fmt.Fprintf(out, "  %s, layout version %d, digest %s\n  pages: %s\n", config.Bytes(t.Bytes).Human(), t.Version, t.Digest, t.Pages)
		fmt.Fprintf(out, "  %-24s %12s %6s %-9s %12s\n", "table", "rows", "dim", "dtype", "bytes")
		for _, e := range t.Tables {
			fmt.Fprintf(out, "  %-24s %12d %6d %-9s %12s\n", e.Name, e.Rows, e.Dim, e.DType, config.Bytes(e.Bytes).Human())
		}
	}
	if len(list) == 0 {
		return fmt.Errorf("server %s has no tables in memory", s.Instance)
	}
	return nil
}
