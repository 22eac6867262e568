package pjrt

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"rankd/deviceowner/executor"
	"rankd/deviceowner/pjrt/execache"
)

// TargetOptions say for what to compile.
type TargetOptions struct {
	PluginPath string // as in Options
	Platform   string // as in Options
	// Topology names the devices as the plugin does, such as "v6e:1x1" for libtpu. The program will run on the first of them.
	Topology   string
	ScoreBytes int // as in Options
}

// Target is a kind of device to compile for. There need not be one in this machine. It is used by one goroutine.
type Target struct {
	topology   *topology
	key        execache.Key
	plugin     string
	name       string
	scoreBytes int
}

// OpenTarget loads the plugin, in which nothing opens a device. Some plugins expect variables in the environment, which must be
// set when the process starts: see QuietEnvironment.
func OpenTarget(o TargetOptions) (*Target, error) {
	path, err := ResolvePlugin(o.PluginPath, o.Platform)
	if err != nil {
		return nil, err
	}
	plugin, err := openPlugin(path)
	if err != nil {
		return nil, err
	}
	t, err := openTopology(plugin, o.Topology, topologyOptions(o.Platform, o.Topology))
	if err != nil {
		return nil, notDescribed(path, o.Topology, err)
	}
	target := &Target{topology: t, plugin: filepath.Base(path), scoreBytes: o.ScoreBytes}
	if err := target.check(path, &o); err != nil {
		return nil, errors.Join(err, t.close())
	}
	return target, nil
}

// notDescribed says what it means that there is no topology.
func notDescribed(path, topology string, err error) error {
	var said *Error
	if errors.As(err, &said) && said.Code == CodeUnimplemented || errors.As(err, &said) && said.Code == CodeUnknown && topology == "" {
		return wrong("describe topology %q: plugin %q cannot compile without a device (it says %w); compile on a machine with the device, without a topology", topology, path, err)
	}
	return wrong("describe topology %q: plugin %q does not take it: %w", topology, path, err)
}

func (t *Target) check(path string, o *TargetOptions) error {
	id := t.topology.identity
	if id.Devices == 0 {
		return wrong("describe topology %q: got no device, want at least one", o.Topology)
	}
	if o.Platform != "" && !samePlatform(o.Platform, id.Platform) {
		return wrong("describe topology %q: got platform %q, want %q", o.Topology, id.Platform, o.Platform)
	}
	digest, err := execache.FileDigest(path)
	if err != nil {
		return err
	}
	t.key = aheadKey(digest, id)
	t.name = fmt.Sprintf("pjrt %s, topology %s: %d × %s (%s, PJRT C API %s)", id.Platform, o.Topology, id.Devices, id.Kind, firstLine(id.Version), id.API)
	return nil
}

// firstLine keeps names on one line.
func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// Name describes the target, for people.
func (t *Target) Name() string { return t.name }

// Plugin is the name of the plugin's file.
func (t *Target) Plugin() string { return t.plugin }

// Compile compiles the program of a bucket and returns its image and the key under which an executor finds it. The plugin cannot
// be interrupted.
func (t *Target) Compile(bucket int, program []byte) (execache.Key, []byte, error) {
	if bucket <= 0 || len(program) == 0 {
		return execache.Key{}, nil, wrong("compile bucket %d: got a program of %d bytes, want some of both", bucket, len(program))
	}
	image, err := t.topology.compile(program, bucket, t.scoreBytes)
	if err != nil {
		return execache.Key{}, nil, fmt.Errorf("compile bucket %d: %w", bucket, explainSerialize(refused(err)))
	}
	return keyFor(t.key, bucket, program), image, nil
}

// Close frees the target. The plugin stays loaded.
func (t *Target) Close() error { return t.topology.close() }

// explainSerialize adds what an unimplemented call means in a compilation whose purpose is an image.
func explainSerialize(err error) error {
	var said *Error
	if errors.As(err, &said) && said.Code == CodeUnimplemented {
		return executor.Permanent(fmt.Errorf("the plugin cannot compile this, or cannot serialize what it has compiled: %w", err))
	}
	return err
}

// topologyOptions are what a plugin needs beside the name. libtpu takes a host for one of 2x2 chips unless it is told: here all of
// a topology is one host, since one process serves.
func topologyOptions(platform, topology string) map[string]any {
	if platform != "tpu" {
		return nil
	}
	_, mesh, ok := strings.Cut(topology, ":")
	sides := strings.Split(mesh, "x")
	if !ok || len(sides) > 3 {
		return nil
	}
	bounds := []int64{1, 1, 1}
	for i, s := range sides {
		n, err := strconv.ParseInt(s, 10, 32)
		if err != nil || n < 1 {
			return nil // the plugin says what is wrong with it
		}
		bounds[i] = n
	}
	return map[string]any{"chips_per_host_bounds": bounds}
}

// QuietEnvironment is what the environment of a process that opens a Target needs beside what is set, as NAME=value. It keeps
// libtpu from asking a metadata server, which it would do for ever where there is none, and from writing log files.
func QuietEnvironment(platform string) []string {
	if platform != "tpu" {
		return nil
	}
	return []string{"TPU_SKIP_MDS_QUERY=1", "TPU_LOG_DIR=disabled"}
}
