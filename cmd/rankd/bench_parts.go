package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"rankd/bench/ablation"
	"rankd/bench/exam"
	"rankd/bench/overload"
	"rankd/bench/report"
	"rankd/bench/soak"
	"rankd/bench/suite"
	"rankd/internal/config"
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
	made := strings.Join(t.args, "\n") + "\n" + digest + "\n"
	state, err := claimTrial(path, made, o.Replace)
	if err != nil {
		return fmt.Errorf("run bench %s: %w", t.args[1], err)
	}
	if state == trialWhole {
		fmt.Fprintf(progress, "%s: results of the same configuration are there\n", t.args[1])
		return nil
	}
	if err := suite.Describe(o); err != nil {
		return err
	}
	fmt.Fprintf(progress, "%s: rankd %s\n", t.args[1], strings.Join(t.args, " "))
	if err := t.command(ctx, o, path, state == trialBegun, out, progress); err != nil {
		return fmt.Errorf("run bench %s: %w", t.args[1], err)
	}
	if err := os.Rename(path+begunSuffix, path+madeSuffix); err != nil {
		return err
	}
	page, err := report.Write(o.Results())
	if err == nil {
		fmt.Fprintln(out, page)
	}
	return err
}

// States of a trial's file.
const (
	trialNew   = iota
	trialBegun // an interrupted run with the same arguments has left a part
	trialWhole
)

// Beside a trial's file stands what it was or is being made with: its arguments, a line each, and the digest of rankd.
const (
	madeSuffix  = ".made"
	begunSuffix = ".begun"
)

// claimTrial finds out what there is of a trial, and notes that it begins if it is not whole. Results that were made with other
// arguments are refused, or with replace removed.
func claimTrial(path, made string, replace bool) (state int, err error) {
	for suffix, found := range map[string]int{madeSuffix: trialWhole, begunSuffix: trialBegun} {
		old, err := os.ReadFile(path + suffix)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return 0, err
		case string(old) == made:
			return found, nil
		case !replace:
			return 0, withCode(fmt.Errorf("%s was made otherwise: %s: keep it with another --name, or remove it with --replace", path, otherwise(string(old), made)),
				config.ExitBadConfig)
		}
		for _, file := range []string{path + suffix, path} {
			if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return 0, err
			}
		}
	}
	return trialNew, os.WriteFile(path+begunSuffix, []byte(made), 0o644)
}

// otherwise lists the lines in which two trials differ.
func otherwise(old, made string) string {
	before, now := strings.Split(strings.TrimSpace(old), "\n"), strings.Split(strings.TrimSpace(made), "\n")
	last := func(list []string) string { return list[len(list)-1] }
	var list []string
	for _, line := range now[:len(now)-1] {
		if !slices.Contains(before, line) {
			list = append(list, "got "+line)
		}
	}
	for _, line := range before[:len(before)-1] {
		if !slices.Contains(now, line) {
			list = append(list, "it has "+line)
		}
	}
	if last(before) != last(now) {
		list = append(list, "it is of another build of rankd")
	}
	return strings.Join(list, ", ")
}

// command runs the trial as a process of its own; an interruption is passed on, so that it stops its server.
func (t trialPart) command(ctx context.Context, o suite.Options, path string, resume bool, out, progress io.Writer) error {
	cmd := exec.CommandContext(ctx, o.Rankd, append(slices.Clone(t.args), "--json="+path, fmt.Sprintf("--resume=%v", resume))...)
	errs := &childErrors{out: progress}
	cmd.Stdout, cmd.Stderr = out, errs
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 2 * time.Minute
	err := cmd.Run()
	if ctx.Err() != nil {
		return fmt.Errorf("the same command goes on from here: %w", ctx.Err())
	}
	return err
}

// childErrors hands a child's lines on, but for the one in which it says that it was interrupted: its parent says so too, for both.
type childErrors struct {
	out  io.Writer
	line []byte // begun
}

func (c *childErrors) Write(p []byte) (int, error) {
	c.line = append(c.line, p...)
	for {
		i := bytes.IndexByte(c.line, '\n')
		if i < 0 {
			return len(p), nil
		}
		if !bytes.HasPrefix(c.line, []byte("rankd: interrupted")) {
			if _, err := c.out.Write(c.line[:i+1]); err != nil {
				return 0, err
			}
		}
		c.line = c.line[i+1:]
	}
}
