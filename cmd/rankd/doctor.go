package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"rankd/deviceowner/device"
	"rankd/deviceowner/pjrt"
	"rankd/internal/config"
	"rankd/internal/doctor"
	"rankd/internal/steer"
	"rankd/model"
	"rankd/supervisor"
	"rankd/tables"
)

// doctorConfig is what a person may say about the examination itself.
type doctorConfig struct {
	JSON     bool `flag:"json" file:"no" help:"findings as JSON, for programs"`
	NoDevice bool `flag:"no-device" file:"no" help:"load the plugin but do not open its device, which many let only one process do"`
}

// errUnfit ends doctor when a server would not start.
var errUnfit = errors.New("a server would not start: see what is marked fail")

const doctorLong = `Look whether this machine can run the server that "rankd serve" with the same flags, environment and
--config would start: its model, memory, pages, limits, control groups, processors, kernel, PJRT
plugin, ports and directories. For each: what is there, what to change, and the command that changes
it. Nothing is changed, and no server is started; one that runs goes on, and then its limits count.

  ok     as it should be
  warn   a server runs, but slower or at a risk
  fail   a server does not start

Exit code: 0 if nothing is marked fail, else 1.`

func newDoctor() *cobra.Command {
	d := &doctorConfig{}
	var c *serveConfig
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "look whether this machine can run a server, and what to change",
		Long:  doctorLong,
		Example: `  rankd doctor --config ` + config.DefaultFile + `
  rankd doctor --model demo --frontends 4 --json`,
		Args:    arguments(),
		GroupID: "run",
		RunE: func(cmd *cobra.Command, _ []string) error {
			report := (&examination{cmd: cmd, config: c, settings: d, machine: doctor.This()}).run()
			out := cmd.OutOrStdout()
			if d.JSON {
				text, err := json.MarshalIndent(report, "", "  ")
				if err != nil {
					return fmt.Errorf("doctor: %w", err)
				}
				fmt.Fprintln(out, string(text))
			} else if err := report.WriteText(out); err != nil {
				return fmt.Errorf("doctor: %w", err)
			}
			if report.Count(doctor.Fail) > 0 {
				return fmt.Errorf("doctor: %w", errUnfit)
			}
			return nil
		},
	}
	c = serverFlags(cmd)
	bind(cmd, d)
	return cmd
}

// examination is one run of doctor.
type examination struct {
	cmd      *cobra.Command
	config   *serveConfig
	settings *doctorConfig
	machine  *doctor.Machine
	server   *supervisor.State // the one that runs with this configuration; nil: none
	bundle   *model.Bundle     // nil: it can't be served with these settings
	wrong    error             // what is wrong with the values of settings, whatever the model
	report   doctor.Report
}

func (x *examination) run() *doctor.Report {
	if err := x.settle(); errors.Is(err, config.ErrFile) { // without its settings, all else would be about another server
		return &x.report
	}
	x.bundle = x.model()
	need := x.need(x.bundle)
	x.report.Findings = append(x.report.Findings, doctor.Look(x.machine, need).Findings...)
	if x.wrong == nil {
		x.report.Add("placement", x.placement(need)...)
	}
	x.report.Add("plugin", x.plugin()...)
	x.report.Add("directories", x.directories()...)
	return &x.report
}

func finding(check string, state doctor.State, found, change string, commands ...string) doctor.Finding {
	return doctor.Finding{Check: check, State: state, Found: found, Change: change, Commands: commands}
}

// settle reads the configuration and reports each mistake in it. Its error is that of reading.
func (x *examination) settle() error {
	c, flags := x.config, x.cmd.Flags()
	origins, err := config.Fill(flags)
	mistakes := err
	if !errors.Is(err, config.ErrFile) {
		x.wrong = c.checkValues()
		mistakes = errors.Join(err, origins.Explain(x.wrong))
	}
	var list []doctor.Finding
	for _, e := range config.Leaves(mistakes) {
		list = append(list, finding("mistake", doctor.Fail, e.Error(), "mend it"))
	}
	if len(list) == 0 {
		list = append(list, finding("settings", doctor.OK, origins.Summary(c.general.Config), ""))
	}
	for _, text := range origins.Idle(flags) {
		list = append(list, finding("without effect", doctor.Warn, text, "take it out, or set what it needs"))
	}
	if c.general.Config == "" {
		if _, err := os.Stat(config.DefaultFile); err == nil {
			list = append(list, finding("file", doctor.Warn, config.DefaultFile+" is there and was not read", "if it is the service that you ask about:",
				"rankd doctor --config "+config.DefaultFile))
		}
	}
	if s, err := supervisor.FindState(c.supervisor.RunDir, c.supervisor.Instance, c.supervisor.Listen); err == nil && s.Alive() {
		x.server = s
		list = append(list, finding("server", doctor.OK, fmt.Sprintf("%s runs already, process %d: what follows is about it", s.Instance, s.PID), ""))
	}
	x.report.Add("configuration", list...)
	return err
}

// model looks at the bundle; nil if it can't be served with these settings.
func (x *examination) model() *model.Bundle {
	c := x.config
	b, err := c.openModel()
	if err != nil {
		x.report.Add("model", finding("bundle", doctor.Fail, err.Error(), "name the directory of a bundle with --model, or make one to try",
			"rankd model create-demo demo --max-vocab 1000"))
		return nil
	}
	m := b.Manifest
	list := []doctor.Finding{finding("bundle", doctor.OK, fmt.Sprintf("%s: model %s version %s, %d tables", b.Dir, m.Name, m.Version, len(m.Tables)), "")}
	if err := b.CheckTensors(); err != nil {
		list = append(list, finding("files", doctor.Fail, err.Error(), "copy the bundle again, or make it anew", "rankd model check --no-run "+b.Dir))
	} else {
		list = append(list, finding("files", doctor.OK, "names, types and sizes are right; a start also compares every byte with its digest", ""))
	}
	unfit := x.wrong
	if unfit == nil {
		if unfit = c.checkBundle(b); unfit != nil {
			list = append(list, finding("batch sizes", doctor.Fail, unfit.Error(), "set --buckets to batch sizes that the model has programs for"))
		} else {
			list = append(list, finding("batch sizes", doctor.OK, fmt.Sprint(c.owner.BucketsFor(m)), ""))
		}
	}
	x.report.Add("model", list...)
	if unfit != nil {
		return nil
	}
	return b
}

// need works out what the server asks of the machine; b may be nil.
func (x *examination) need(b *model.Bundle) *doctor.Need {
	c := x.config
	n := &doctor.Need{
		Frontends: c.supervisor.Frontends, OwnerCPUs: c.owner.OwnerCPUs, Steering: steer.Policy(c.supervisor.Steering),
		ShmDir: c.supervisor.ShmDir, Listen: c.supervisor.Listen, HTTP: c.supervisor.HTTP,
	}
	if x.server != nil {
		n.ServerPID = x.server.PID
	}
	if b == nil {
		return n
	}
	bytes, err := tables.SegmentBytes(b.Manifest)
	if err != nil {
		return n
	}
	n.Known, n.Tables, n.Region = true, bytes, int64(c.geometry(b.Manifest).Bytes())
	n.TablesAt = x.loaded(b.Manifest)
	return n
}

// loaded is where the tables of the model lie already, or "".
func (x *examination) loaded(m *model.Manifest) string {
	if x.server == nil {
		return ""
	}
	list, err := tables.List(x.server.Instance, x.config.supervisor.ShmDir)
	if err != nil {
		return ""
	}
	for _, t := range list {
		if t.Problem == "" && t.Digest == m.TablesDigest() {
			return t.Path
		}
	}
	return ""
}

// directories are those in which a server makes files.
func (x *examination) directories() []doctor.Finding {
	c := x.config
	list := []doctor.Finding{directory("run-dir", supervisor.RunDir(c.supervisor.RunDir))}
	if c.supervisor.ShmDir != "" {
		list = append(list, directory("shm-dir", c.supervisor.ShmDir))
	}
	cache := pjrt.CacheDir(c.owner.Executables)
	switch {
	case c.owner.Executor != device.KindPJRT:
	case cache == "":
		list = append(list, finding("executable-cache", doctor.Warn, "none: every start compiles every batch size", "name a directory of the server's user with --executable-cache"))
	default:
		list = append(list, cacheDirectory(cache))
	}
	return list
}

// directory finds out whether files can be made in one, or it can be made.
func directory(flag, dir string) doctor.Finding {
	there, err := nearestDirectory(dir)
	if err != nil {
		return finding(flag, doctor.Fail, err.Error(), fmt.Sprintf("set --%s to a directory", flag))
	}
	if err := unix.Access(there, unix.W_OK|unix.X_OK); err != nil {
		return finding(flag, doctor.Fail, fmt.Sprintf("%s: user %d can't make files in %s: %v", dir, os.Geteuid(), there, err),
			fmt.Sprintf("give it to the server's user, or set --%s to another", flag), fmt.Sprintf("install -d -m 0700 -o %d %s", os.Geteuid(), dir))
	}
	if there != dir {
		return finding(flag, doctor.OK, dir+" will be made", "")
	}
	return finding(flag, doctor.OK, dir, "")
}

// nearestDirectory is the directory itself, or the one above it in which it would be made.
func nearestDirectory(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	for {
		info, err := os.Stat(dir)
		switch {
		case err == nil && !info.IsDir():
			return "", fmt.Errorf("%s is a file, want a directory", dir)
		case err == nil:
			return dir, nil
		case !errors.Is(err, fs.ErrNotExist) || dir == filepath.Dir(dir):
			return "", err
		}
		dir = filepath.Dir(dir)
	}
}

// cacheDirectory also asks for what is asked of a directory that holds code.
func cacheDirectory(dir string) doctor.Finding {
	const flag = "executable-cache"
	f := directory(flag, dir)
	if f.State == doctor.Fail { // a server starts without
		f.State = doctor.Warn
		return f
	}
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil { // it will be made
		return f
	}
	if st.Mode&0o022 != 0 || int(st.Uid) != os.Geteuid() {
		return finding(flag, doctor.Warn, fmt.Sprintf("%s has owner %d and mode %#o, want user %d alone to write to it: it holds code", dir, st.Uid, st.Mode&0o777, os.Geteuid()),
			"until then every start compiles every batch size", fmt.Sprintf("chown %d %s && chmod 0700 %s", os.Geteuid(), dir, dir))
	}
	return f
}
