package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"rankd/bench/exam"
	"rankd/bench/launch"
	"rankd/bench/suite"
	"rankd/internal/config"
)

// suiteConfig is what a person may set about a comparison of servers.
type suiteConfig struct {
	Platform   string        `flag:"platform" oneof:"sim|cpu|cuda|tpu" help:"what the servers run the model on; sim is a simulated accelerator"`
	Arms       []string      `flag:"arms" help:"servers that are compared"`
	Shared     bool          `flag:"shared-tables" help:"also the Python servers of several processes with one copy of the tables for all of them"`
	DryRun     bool          `flag:"dry-run" help:"print what would be done"`
	Smoke      bool          `flag:"smoke" help:"small tables and short runs: less than five minutes on two processors"`
	ServerCPUs []int         `flag:"server-cpus" help:"processors of the servers; empty: half of those of this process"`
	ClientCPUs []int         `flag:"client-cpus" help:"processors of the load generator; empty: the other half"`
	Processes  []int         `flag:"num-processes" help:"numbers of processes that are tried: Python servers' and rankd's frontends; empty: what suits the processors"`
	Threads    []int         `flag:"num-threads" help:"numbers of threads of a frontend of rankd that are tried; empty: what suits the processors"`
	MaxVocab   int64         `flag:"max-vocab-size" min:"3" unit:"rows" help:"most rows of one table"`
	Workload   string        `flag:"workload" oneof:"independent|shared-user" help:"what the examples of a request have to do with each other: nothing, or they are candidates for one user, whose inputs come once a request"`
	IDs        string        `flag:"ids" help:"how ids are drawn: uniform, or zipf:S with S above 1"`
	Duration   time.Duration `flag:"duration" min:"100ms" help:"time that counts, a point"`
	Warmup     time.Duration `flag:"warmup" min:"0s" help:"time before it that does not count"`
	Repeats    int           `flag:"repeats" min:"1" max:"100" help:"times that every point is measured"`
	Callers    []int         `flag:"concurrencies" help:"numbers of callers of the closed loop; with the workload shared-user 1, 4 and 16 unless set"`
	Sizes      []int         `flag:"request-batch-sizes" help:"numbers of examples a request; with the workload shared-user 128 and 1000 unless set"`
	WorkDir    string        `flag:"work-dir" help:"results go to results/<name> in it"`
	Name       string        `flag:"name" help:"of the set of results; empty: smoke, or the platform, and -shared with the workload shared-user"`
	Replace    bool          `flag:"replace" help:"remove results of another configuration under the same name; without it they are refused, and nothing is measured"`
	CacheDir   string        `flag:"cache-dir" unit:"directory" help:"where models, Python packages and expected scores are kept"`
	Source     string        `flag:"source" unit:"directory" help:"directory of rankd's repository, which has the Python servers"`
	Parts      []string      `flag:"parts" help:"what is done: servers (the comparison), and for rankd alone capacity, overload, ablation, soak"`
	Minutes    float64       `flag:"minutes" min:"0.1" max:"10000" help:"length of the soak"`
	Price      float64       `flag:"price-per-hour" min:"0" help:"of the machine, for the cost of a million requests"`
	Python     string        `flag:"python" help:"interpreter that has the packages of the Python servers; empty: they are installed"`
	Prepared   bool          `flag:"prepared" hidden:"true" help:"everything is there and this process is pinned"`
}

func defaultSuite() suiteConfig {
	return suiteConfig{
		Platform: suite.Sim, Arms: suite.DefaultArms(), MaxVocab: 850_000, IDs: "uniform", Workload: exam.Independent, Duration: 3 * time.Second, Warmup: time.Second, Repeats: 3,
		Callers: []int{1, 4, 16, 64, 256}, Sizes: []int{1, 16, 128}, WorkDir: "bench", CacheDir: ".build/bench", Source: ".",
		Parts: []string{partServers}, Minutes: 30,
	}
}

const benchSuiteLong = `Compare servers on this machine: each is started on the same processors with the same model, its
answers are checked against a reference, it is loaded in closed loops and then in open loops at 50 %
and 80 % of its own peak, and stopped. Then come, with --parts, trials of rankd alone. An interrupted
comparison goes on with the same command; what was measured with the same configuration is not
measured again.

Flags may be written with _ instead of -.`

func newBenchSuite() *cobra.Command {
	c := defaultSuite()
	cmd := &cobra.Command{
		Use:     "suite",
		Short:   "compare rankd with other servers",
		Long:    benchSuiteLong,
		Example: "  rankd bench suite --smoke\n  rankd bench suite --platform sim --server-cpus 0,1 --client-cpus 2,3",
	}
	cmd.Flags().SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		return pflag.NormalizedName(strings.ReplaceAll(name, "_", "-"))
	})
	return tool(cmd, func(ctx context.Context, out, progress io.Writer) error {
		if c.Smoke {
			c.shrink(cmd.Flags())
		}
		if c.Workload == exam.SharedUser {
			c.fitSharedUser(cmd.Flags())
		}
		return c.run(ctx, out, progress)
	}, &c)
}

// shrink sets what was not set by hand so that everything takes less than five minutes.
func (c *suiteConfig) shrink(flags *pflag.FlagSet) {
	small := suiteConfig{Duration: 800 * time.Millisecond, Warmup: 200 * time.Millisecond, Repeats: 1, MaxVocab: 1000, Callers: []int{1, 16, 64}, Sizes: []int{1, 16, 128}}
	for name, set := range map[string]func(){
		"duration": func() { c.Duration = small.Duration }, "warmup": func() { c.Warmup = small.Warmup }, "repeats": func() { c.Repeats = small.Repeats },
		"max-vocab-size": func() { c.MaxVocab = small.MaxVocab }, "concurrencies": func() { c.Callers = small.Callers },
		"request-batch-sizes": func() { c.Sizes = small.Sizes }, "num-processes": func() { c.Processes = []int{2} }, "name": func() { c.Name = "smoke" },
	} {
		if !flags.Changed(name) {
			set()
		}
	}
}

// fitSharedUser sets what was not set by hand as the workload wants it: many candidates a request, fewer callers, a name of its own.
func (c *suiteConfig) fitSharedUser(flags *pflag.FlagSet) {
	if !flags.Changed("request-batch-sizes") {
		c.Sizes = exam.SharedUserSizes()
	}
	if !flags.Changed("concurrencies") {
		c.Callers = []int{1, 4, 16}
	}
	if !flags.Changed("name") {
		c.Name = cmp.Or(c.Name, c.Platform) + "-shared"
	}
}

func (c *suiteConfig) options(out, progress io.Writer) (suite.Options, error) {
	o := suite.Options{
		Name: c.Name, Platform: c.Platform, Arms: c.Arms, Shared: c.Shared, ServerCPUs: c.ServerCPUs, ClientCPUs: c.ClientCPUs,
		Processes: c.Processes, Threads: c.Threads, MaxVocab: c.MaxVocab, IDs: c.IDs, Workload: c.Workload, Duration: c.Duration, Warmup: c.Warmup, Repeats: c.Repeats,
		Callers: c.Callers, Sizes: c.Sizes, Source: c.Source, WorkDir: c.WorkDir, CacheDir: c.CacheDir, Python: c.Python, Price: c.Price, Replace: c.Replace, Out: out, Progress: progress,
	}
	if o.Name == "" {
		o.Name = o.Platform
	}
	binary, err := os.Executable()
	if err != nil {
		return o, fmt.Errorf("find this command: %w", err)
	}
	o.Rankd = binary
	all, err := suite.Processors()
	if err != nil {
		return o, err
	}
	server, client := suite.Split(all)
	if len(o.ServerCPUs) == 0 {
		o.ServerCPUs = server
	}
	if len(o.ClientCPUs) == 0 {
		o.ClientCPUs = client
	}
	return o, nil
}

func (c *suiteConfig) run(ctx context.Context, out, progress io.Writer) error {
	o, err := c.options(out, progress)
	if err != nil {
		return err
	}
	trials := trialParts(o, c)
	for _, name := range c.Parts {
		if _, ok := trials[name]; !ok && name != partServers {
			return withCode(fmt.Errorf("check --parts: got %q, want some of servers, capacity, overload, ablation, soak", name), config.ExitBadConfig)
		}
	}
	if !c.Prepared { // afterwards this process is pinned and may use fewer processors
		warnings, err := o.Check()
		if err != nil {
			return withCode(err, config.ExitBadConfig)
		}
		for _, text := range warnings {
			fmt.Fprintln(progress, "warning:", text)
		}
	}
	if c.DryRun {
		return c.dryRun(o, trials, out)
	}
	release, err := suite.Lock(o)
	if err != nil {
		return err
	}
	defer release()
	if err := suite.Claim(o, slices.Contains(c.Parts, partServers)); err != nil {
		return refusal(err)
	}
	if !c.Prepared {
		left, err := launch.ClearStale()
		for _, text := range left {
			fmt.Fprintln(progress, text)
		}
		if err != nil {
			return err
		}
		err = suite.Prepare(ctx, o)
		if ctx.Err() != nil { // where it was does not matter: nothing half made is taken for whole
			return fmt.Errorf("prepare servers: the same command goes on from here: %w", ctx.Err())
		}
		if err != nil {
			return err
		}
		return becomePinned(c, o)
	}
	var errs []error
	for _, name := range c.Parts {
		if ctx.Err() != nil {
			break
		}
		if name == partServers {
			path, err := suite.Run(ctx, o)
			errs = append(errs, refusal(err))
			if path != "" {
				fmt.Fprintln(out, path)
			}
			continue
		}
		errs = append(errs, trials[name].run(ctx, o, out, progress))
	}
	return errors.Join(errs...)
}

// refusal gives an error its exit code if results of another configuration are in the way.
func refusal(err error) error {
	if errors.Is(err, suite.ErrOther) {
		return withCode(err, config.ExitBadConfig)
	}
	return err
}

func (c *suiteConfig) dryRun(o suite.Options, trials map[string]trialPart, out io.Writer) error {
	for _, name := range c.Parts {
		if name == partServers {
			if err := suite.DryRun(o); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(out, "%s: rankd %s\n", name, strings.Join(trials[name].args, " "))
	}
	return nil
}

// becomePinned runs this command anew on the processors of the client: a process counts its processors only once, when it starts.
func becomePinned(c *suiteConfig, o suite.Options) error {
	again := *c
	again.Prepared, again.ServerCPUs, again.ClientCPUs, again.Smoke = true, o.ServerCPUs, o.ClientCPUs, false
	again.Name = o.Name
	if err := pin(o.ClientCPUs); err != nil {
		return err
	}
	err := unix.Exec(o.Rankd, slices.Concat([]string{filepath.Base(o.Rankd), "bench", "suite"}, config.ToArgs(&again)), os.Environ())
	return fmt.Errorf("run %s anew: %w", o.Rankd, err)
}

// pin lets this thread, and the program that it executes next, run on some processors only.
func pin(cpus []int) error {
	runtime.LockOSThread() // until the process is another program
	var set unix.CPUSet
	for _, n := range cpus {
		set.Set(n)
	}
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("use processors %v: %w", cpus, err)
	}
	return nil
}
