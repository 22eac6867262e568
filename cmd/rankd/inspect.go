package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"

	"github.com/spf13/cobra"

	"rankd/internal/config"
	"rankd/shmring"
	"rankd/supervisor"
)

// inspectConfig says which server is looked at.
type inspectConfig struct {
	RunDir   string `flag:"run-dir" unit:"directory" help:"directory of the state file; empty: where serve puts it"`
	Listen   string `flag:"listen" unit:"host:port" help:"address of the server, unless instance is given"`
	Instance string `flag:"instance" help:"name of the server; empty: made from the listening address"`
	ShmDir   string `flag:"shm-dir" unit:"directory" help:"directory of the shared memory files; empty: all places where they may lie"`
}

func newInspect() *cobra.Command {
	c := &inspectConfig{Listen: supervisor.Default().Listen}
	cmd := &cobra.Command{
		Use:   "inspect",
		Short: "look into a server from outside, also a hung one",
		Long: `Look into a server through its shared memory. It works without the server's help, so also on
one that hangs; it changes nothing. Which server: the one at --listen, or named with --instance.
Run it as the server's user or as root.

  rankd inspect ready                             does it take requests; for scripts and probes
  rankd inspect memory --listen 127.0.0.1:8600    what another server on this machine costs

The status page says more while the server answers: http://127.0.0.1:8501/statusz`,
		GroupID: "look",
	}
	config.Bind(cmd.PersistentFlags(), c)
	add := func(use, short, long string, run func(c *inspectConfig, s *supervisor.State, out io.Writer) error) {
		cmd.AddCommand(&cobra.Command{
			Use: use, Short: short, Long: long, Args: arguments(),
			Example: fmt.Sprintf("  rankd inspect %s\n  rankd inspect %s --run-dir run --instance ctr", use, use),
			RunE: func(cmd *cobra.Command, _ []string) error {
				if err := settle(cmd, c.validate); err != nil {
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
	add("ready", "tell whether the server takes requests; exit code 0 if it does", `Ask the server's health service, and where it says no, what the server is doing.

Exit code: 0 if it takes requests, 1 if not, also if there is none.`, inspectReady)
	add("ring", "show slabs, roles and what is wrong with them", `Show the slabs in which batches are formed, who fills and executes them, and check every word.

Exit code: 0 if all of it can be right, else 1.`, inspectRing)
	add("tables", "show the tables in memory and their pages", `Show the tables that the server uses, how much of them lies on huge pages, and files of the same
server that it does not use.`, inspectTables)
	add("memory", "show what tables, slabs and each process cost", `Show the memory of each process: tables and slabs, divided among those that share them, and what it
has for itself. Of a server that was killed it shows what was left.`, inspectMemory)
	add("placement", "show where processes run and on which NUMA nodes memory lies", `Show for each process on which CPUs it may run and on which NUMA nodes the tables and slabs lie that
it has mapped, as the kernel has it at this moment.`, inspectPlacement)
	return cmd
}

func (c *inspectConfig) validate() error {
	if _, _, err := net.SplitHostPort(c.Listen); err != nil && c.Instance == "" {
		return fmt.Errorf("check --listen: got %q, want host:port: %w", c.Listen, err)
	}
	return nil
}

func (c *inspectConfig) state() (*supervisor.State, error) {
	s, err := supervisor.FindState(c.RunDir, c.Instance, c.Listen)
	switch where := supervisor.RunDir(c.RunDir); {
	case !errors.Is(err, fs.ErrNotExist):
	case c.Instance != "":
		return nil, fmt.Errorf("no server has the instance name %s in %s: look there for others, or give --run-dir if serve was given one", c.Instance, where)
	default:
		return nil, fmt.Errorf("no server at %s in %s: start one with rankd serve, or name it with --listen or --instance (and --run-dir if serve was given one)", c.Listen, where)
	}
	return s, err
}

// about describes a server that does not answer as one that serves would: what it does, or that it is dead.
func about(s *supervisor.State) string {
	if !s.Alive() {
		return fmt.Sprintf("server %s (pid %d) is dead: it was killed, and the next start on its address takes over or removes what it left", s.Instance, s.PID)
	}
	return fmt.Sprintf("server %s (pid %d): %s", s.Instance, s.PID, s.Phase)
}

func inspectRing(_ *inspectConfig, s *supervisor.State, out io.Writer) error {
	if !s.Alive() {
		return errors.New(about(s))
	}
	if s.RegionFD < 0 {
		return fmt.Errorf("no ring yet: %s", about(s))
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
