package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"rankd/deviceowner/device"
	"rankd/deviceowner/pjrt"
	"rankd/internal/config"
	"rankd/internal/doctor"
)

const (
	// pluginLimit bounds the opening of a device. libtpu looks for one for minutes where there is none.
	pluginLimit = time.Minute
	// pluginFD is the child's descriptor for what it finds: plugins print to the others.
	pluginFD = 3
)

// pluginEvent is a line that the child writes.
type pluginEvent struct {
	pjrt.Found
	Error string `json:"error,omitempty"`
}

// pluginConfig is what the child is told.
type pluginConfig struct {
	Plugin   string `flag:"plugin" unit:"file" help:"path of the PJRT plugin"`
	Platform string `flag:"platform" help:"which PJRT plugin to look for"`
	Open     bool   `flag:"open" help:"open the device"`
}

// newDoctorPlugin is the process in which doctor tries the plugin.
func newDoctorPlugin() *cobra.Command {
	c := pluginConfig{}
	cmd := &cobra.Command{
		Use:    "doctor-plugin",
		Short:  "a process that tries a plugin; started by doctor",
		Args:   arguments(),
		Hidden: true,
		RunE: func(*cobra.Command, []string) error {
			out := os.NewFile(pluginFD, "findings")
			defer out.Close()
			lines := json.NewEncoder(out)
			var untold error
			tell := func(f pjrt.Found) { untold = errors.Join(untold, lines.Encode(pluginEvent{Found: f})) }
			f, err := pjrt.Probe(c.Plugin, c.Platform, c.Open, tell)
			if err != nil {
				return errors.Join(untold, lines.Encode(pluginEvent{Found: f, Error: err.Error()}))
			}
			if c.Open {
				tell(f)
			}
			return untold
		},
	}
	bind(cmd, &c)
	return cmd
}

// plugin finds out what the device owner would find.
func (x *examination) plugin() []doctor.Finding {
	o := &x.config.owner
	if o.Executor != device.KindPJRT {
		return []doctor.Finding{finding("file", doctor.OK, "none is needed: the accelerator is simulated", "")}
	}
	path, err := pjrt.ResolvePlugin(o.Plugin, o.Platform)
	if err != nil {
		return []doctor.Finding{finding("file", doctor.Fail, err.Error(), "install it, or name its file with --plugin", pjrt.InstallCommand(o.Platform))}
	}
	list := []doctor.Finding{finding("file", doctor.OK, path, "")}
	// A device that a server holds is left alone; on the CPU there is nothing to hold.
	held := x.server != nil && o.Platform != "cpu"
	open := !x.settings.NoDevice && !held
	found, err := tryPlugin(x.cmd.Context(), pluginConfig{Plugin: path, Platform: o.Platform, Open: open})
	if found.API == "" {
		if err == nil {
			err = errors.New("the plugin said nothing")
		}
		return append(list, finding("load", doctor.Fail, err.Error(), "install the plugin anew, made for this platform and processor", pjrt.InstallCommand(o.Platform)))
	}
	list = append(list, finding("load", doctor.OK, "PJRT C API "+found.API, ""))
	switch {
	case held:
		list = append(list, finding("device", doctor.OK, fmt.Sprintf("not opened: server %s has it", x.server.Instance), ""))
	case !open:
		list = append(list, finding("device", doctor.OK, "not opened, as --no-device asks", ""))
	case err != nil:
		list = append(list, finding("device", doctor.Fail, err.Error(), "see that the device is there and that no other process has it"))
	default:
		list = append(list, finding("device", doctor.OK, fmt.Sprintf("%d × %s (%s, %s)", found.Devices, found.Kind, found.Platform, found.Version), ""))
	}
	return list
}

// tryPlugin runs the child and returns the last it told. The error is what the plugin said, or how its process ended.
func tryPlugin(ctx context.Context, c pluginConfig) (found pjrt.Found, err error) {
	ctx, cancel := context.WithTimeout(ctx, pluginLimit)
	defer cancel()
	from, to, err := os.Pipe()
	if err != nil {
		return found, fmt.Errorf("try plugin: %w", err)
	}
	defer from.Close()
	if err := from.SetReadDeadline(time.Now().Add(pluginLimit + time.Second)); err != nil { // the plugin may leave a process behind that holds the other end
		return found, errors.Join(fmt.Errorf("try plugin: %w", err), to.Close())
	}
	var printed headWriter
	cmd := exec.CommandContext(ctx, "/proc/self/exe", append([]string{"doctor-plugin"}, config.ToArgs(&c)...)...)
	cmd.ExtraFiles, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = []*os.File{to}, &printed, &printed, time.Second
	cmd.Env = append(os.Environ(), "GOTRACEBACK=none")
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true} // Ctrl-C ends it through ctx
	err = cmd.Start()
	_ = to.Close() // the child has its own
	if err != nil {
		return found, fmt.Errorf("try plugin: %w", err)
	}
	opened := false
	for lines := json.NewDecoder(from); ; {
		var e pluginEvent
		if lines.Decode(&e) != nil {
			break // the child's end tells more
		}
		found = e.Found
		if e.Error != "" {
			err = errors.New(e.Error)
		}
		opened = opened || e.Devices > 0
	}
	ended := cmd.Wait()
	switch {
	case err != nil:
		return found, err
	case opened && c.Open || !c.Open && found.API != "" && ended == nil:
		return found, nil
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return found, fmt.Errorf("the plugin did not open a device within %v", pluginLimit)
	}
	return found, fmt.Errorf("the plugin ended its process (%w)%s", ended, printed.words())
}

// headWriter keeps the beginning of what is written to it: what a plugin says before it crashes, and not how.
type headWriter struct{ text []byte }

func (h *headWriter) Write(p []byte) (int, error) {
	const limit = 600
	h.text = append(h.text, p[:min(len(p), limit-len(h.text))]...)
	return len(p), nil
}

// words ends a message with what was printed.
func (h *headWriter) words() string {
	text := strings.TrimSpace(strings.ToValidUTF8(string(h.text), "?"))
	if text == "" {
		return ""
	}
	return "; it printed:\n" + text
}
