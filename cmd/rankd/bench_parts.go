package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"rankd/bench/ablation"
	"rankd/bench/exam"
	"rankd/bench/overload"
	"rankd/bench/report"
	"rankd/bench/soak"
	"rankd/bench/suite"
)

// partServers is the comparison itself; the other parts are commands of their own.
const partServers = "servers"

// trialPart is a command of rankd that writes a file of results.
type trialPart struct {
	args []string // from "bench" on, without --json
	file string
	skip string // why it can't be done here; "": it can
}

// trialParts are the trials of rankd alone, with the settings of a comparison.
func trialParts(o suite.Options, c *suiteConfig) map[string]trialPart {
	common := func(command string, flags ...string) []string {
		server := "--server-flags=" + strings.Join(o.Executor(), ",")
		executor := "--executor=sim"
		if !o.Simulated() {
			executor = "--executor=pjrt"
		}
		if o.Workload == exam.SharedUser {
			flags = append(flags, "--workload="+o.Workload)
		}
		return append([]string{
			"bench", command, "--model=" + o.Model(), executor, "--server-cpus=" + words(o.ServerCPUs), fmt.Sprintf("--threads=%d", len(o.ClientCPUs)), server,
			"--ids=" + o.IDs, "--cache-dir=" + filepath.Join(o.CacheDir, "expected"),
		}, flags...)
	}
	parts := map[string]trialPart{
		"capacity": {file: "capacity.json", args: common("capacity", "--batching=continuous,fused", "--connection-counts=1,8", "--halves", fmt.Sprintf("--price-per-hour=%v", c.Price))},
		"overload": {file: overload.Name, args: common("overload")},
		"ablation": {file: ablation.Name, args: common("ablation")},
		"soak":     {file: soak.Name, args: common("soak", fmt.Sprintf("--minutes=%v", c.Minutes))},
	}
	if !o.Simulated() {
		x := parts["overload"]
		x.skip = "the device must be slow on purpose, so only the simulated accelerator is overloaded"
		parts["overload"] = x
	}
	return parts
}

func words(list []int) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(list), " ", ","), "[]")
}

// run makes the trial unless its results are there already, and writes the report anew.
func (t trialPart) run(ctx context.Context, o suite.Options, out, progress io.Writer) error {
	if t.skip != "" {
		fmt.Fprintf(progress, "%s: left out: %s\n", t.args[1], t.skip)
		return nil
	}
	if err := os.MkdirAll(o.Results(), 0o755); err != nil {
		return err
	}
	path := filepath.Join(o.Results(), t.file)
	digest, err := suite.DigestFiles(o.Rankd)
	if err != nil {
		return err
	}
	made := []byte(strings.Join(t.args, " ") + "\n" + digest + "\n")
	if old, _ := os.ReadFile(path + ".made"); string(old) == string(made) { // no answer: it was not made
		fmt.Fprintf(progress, "%s: results of the same configuration are there\n", t.args[1])
		return nil
	}
	fmt.Fprintf(progress, "%s: rankd %s\n", t.args[1], strings.Join(t.args, " "))
	if err := t.command(ctx, o, path, out, progress); err != nil {
		return fmt.Errorf("run bench %s: %w", t.args[1], err)
	}
	if err := os.WriteFile(path+".made", made, 0o644); err != nil {
		return err
	}
	if err := suite.Describe(o); err != nil {
		return err
	}
	page, err := report.Write(o.Results())
	if err == nil {
		fmt.Fprintln(out, page)
	}
	return err
}

// command runs the trial as a process of its own; an interruption is passed on, so that it stops its server.
func (t trialPart) command(ctx context.Context, o suite.Options, path string, out, progress io.Writer) error {
	cmd := exec.CommandContext(ctx, o.Rankd, append(t.args, "--json="+path)...)
	cmd.Stdout, cmd.Stderr = out, progress
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 2 * time.Minute
	err := cmd.Run()
	if ctx.Err() != nil {
		return errors.Join(ctx.Err(), err)
	}
	return err
}
