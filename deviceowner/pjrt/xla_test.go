package pjrt

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	xla "github.com/gomlx/go-xla/pkg/pjrt"
	"github.com/gomlx/go-xla/pkg/types/dtypes"
	"k8s.io/klog/v2"

	"rankd/internal/dtype"
)

// The go-xla binding as a backend: what the shim is measured against, and a second opinion in tests of what backends do alike. It
// keeps no compiled programs, and always lends rows for the transfer.

var statusText = regexp.MustCompile(`(?s)PJRT error \(code=(\d+)\): (.*)`)

// pluginError makes an *Error of an error of the binding, whose text carries the plugin's code and message. An error that
// did not come from the plugin stays as it is.
func pluginError(err error) error {
	if err == nil {
		return nil
	}
	m := statusText.FindStringSubmatch(err.Error())
	if m == nil {
		return err
	}
	code, _ := strconv.Atoi(m[1]) // the pattern allows only digits; an overflow becomes an unknown code
	return newError(code, m[2])
}

// elementTypes maps our element types to those of the binding.
var elementTypes = map[dtype.DType]dtypes.DType{
	dtype.Bool: dtypes.Bool,
	dtype.Int8: dtypes.Int8, dtype.Int16: dtypes.Int16, dtype.Int32: dtypes.Int32, dtype.Int64: dtypes.Int64,
	dtype.Uint8: dtypes.Uint8, dtype.Uint16: dtypes.Uint16, dtype.Uint32: dtypes.Uint32, dtype.Uint64: dtypes.Uint64,
	dtype.Float16: dtypes.Float16, dtype.BFloat16: dtypes.BFloat16,
	dtype.Float32: dtypes.Float32, dtype.Float64: dtypes.Float64,
}

// xlaDevice is the first device of a plugin's client, with the weights on it.
type xlaDevice struct {
	goroutines
	client     *xla.Client
	name       string
	inputs     []Input
	arrays     []Array
	weights    []*xla.Buffer // per input; nil for a packed array
	scoreBytes int
}

// silenceOnce keeps the binding from writing to stderr on its own and from touching XLA_FLAGS.
var silenceOnce sync.Once

func silence(log *slog.Logger) {
	silenceOnce.Do(func() {
		klog.SetSlogLogger(log.With("component", "pjrt_binding"))
		// The binding's CUDA check points XLA_FLAGS at a folder of its author's machine.
		_ = os.Setenv("GOPJRT_CUDA_CHECKS", "no") // fails only for malformed names
	})
}

// openXLA loads the plugin, opens its client and uploads the weights. The caller has set the thread's processors.
func openXLA(path string, o *Options, log *slog.Logger) (*xlaDevice, error) {
	if err := checkLibrary(path); err != nil {
		return nil, err
	}
	quietPlugin()
	silence(log)
	plugin, err := xla.GetPlugin(path)
	if err != nil {
		return nil, notLoaded(path, pluginError(err))
	}
	major, minor := plugin.Version()
	if major != 0 {
		return nil, wrong("load plugin %q: got PJRT C API %d.%d, want 0.x", path, major, minor)
	}
	client, err := plugin.NewClient(xla.NamedValuesMap(o.CreateOptions))
	if err != nil {
		return nil, fmt.Errorf("open device of plugin %q: %w", path, pluginError(err))
	}
	d := &xlaDevice{
		goroutines: newGoroutines(), client: client, inputs: o.Inputs, arrays: o.Arrays, scoreBytes: o.ScoreBytes,
		name: fmt.Sprintf("pjrt %s (%s, PJRT C API %d.%d)", client.Platform(), client.PlatformVersion(), major, minor),
	}
	if err := d.prepare(path, o); err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

func (d *xlaDevice) prepare(path string, o *Options) error {
	if d.client.NumDevices() == 0 {
		return fmt.Errorf("open device of plugin %q: got no device, want at least one", path)
	}
	if got := d.client.Platform(); o.Platform != "" && !samePlatform(o.Platform, got) {
		return wrong("open device of plugin %q: got platform %q, want %q", path, got, o.Platform)
	}
	d.weights = make([]*xla.Buffer, len(o.Inputs))
	for i, in := range o.Inputs {
		if in.Weight == nil {
			continue
		}
		b, err := d.upload(in.Weight.Data, in.Weight.DType, in.Weight.Shape)
		if err != nil {
			return fmt.Errorf("upload weight %q %s %v: %w", in.Weight.Name, in.Weight.DType, in.Weight.Shape, err)
		}
		d.weights[i] = b
	}
	return nil
}

// upload copies data to the device and returns when data is free again.
func (d *xlaDevice) upload(data []byte, t dtype.DType, shape []int) (*xla.Buffer, error) {
	b, err := d.client.BufferFromHost().FromRawData(data, elementTypes[t], shape).Done()
	return b, pluginError(err)
}

func (d *xlaDevice) describe() string { return d.name }

func (d *xlaDevice) close() error {
	var errs []error
	for _, w := range d.weights {
		if w != nil {
			errs = append(errs, pluginError(w.Destroy()))
		}
	}
	d.weights = nil
	errs = append(errs, pluginError(d.client.Destroy()))
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close device: %w", err)
	}
	return nil
}

func (d *xlaDevice) compile(bucket int, program []byte) (runner, error) {
	if len(program) == 0 {
		return nil, wrong("got an empty program")
	}
	exe, err := d.client.Compile().WithStableHLO(program).Done()
	if err != nil {
		return nil, refused(pluginError(err))
	}
	p := &xlaProgram{device: d, exe: exe, bucket: bucket}
	p.shapes = make([][]int, len(d.arrays))
	for i, a := range d.arrays {
		p.shapes[i] = []int{bucket, a.Stride / a.DType.Size()}
	}
	if err := p.check(); err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

// xlaProgram is a loaded executable for one batch size.
type xlaProgram struct {
	device *xlaDevice
	exe    *xla.LoadedExecutable
	bucket int
	shapes [][]int // per packed array
}

func (p *xlaProgram) close() error {
	return pluginError(p.exe.Destroy())
}

// check runs the program once on zeros and compares its result's form with the manifest's. It also pays the device's
// first-run costs before any request does.
func (p *xlaProgram) check() error {
	if p.exe.NumOutputs != 1 {
		return wrong("check program: got %d results, want 1 of float32 %v", p.exe.NumOutputs, p.wantShape())
	}
	rows, free, err := zeroRows(p.device.arrays, p.bucket)
	if err != nil {
		return err
	}
	defer free()
	out, err := p.execute(rows)
	if err != nil {
		return fmt.Errorf("run program on zeros: %w", err)
	}
	defer out.Destroy()
	t, err := out.DType()
	if err != nil {
		return pluginError(err)
	}
	shape, err := out.Dimensions()
	if err != nil {
		return pluginError(err)
	}
	columns := p.device.scoreBytes / 4
	flat := columns == 1 && slices.Equal(shape, []int{p.bucket})
	if t != dtypes.Float32 || !(flat || slices.Equal(shape, p.wantShape())) {
		return wrong("check program: got result %s %v, want float32 %v", strings.ToLower(t.String()), shape, p.wantShape())
	}
	scores := make([]byte, p.bucket*p.device.scoreBytes)
	if err := pluginError(out.ToHost(scores)); err != nil {
		return fmt.Errorf("read result on zeros: %w", err)
	}
	return nil
}

func (p *xlaProgram) wantShape() []int { return []int{p.bucket, p.device.scoreBytes / 4} }

func (p *xlaProgram) start(arrays [][]byte, scores []byte, tag int) (bool, error) {
	return p.device.goroutines.start(func() error { return p.run(arrays, scores) }, tag)
}

func (p *xlaProgram) run(arrays [][]byte, scores []byte) error {
	out, err := p.execute(arrays)
	if err != nil {
		return err
	}
	err = pluginError(out.ToHost(scores))
	if freed := pluginError(out.Destroy()); err == nil {
		err = freed
	}
	return err
}

// execute uploads the packed arrays, runs the program and frees the uploads. The caller destroys the result.
func (p *xlaProgram) execute(arrays [][]byte) (out *xla.Buffer, err error) {
	inputs := slices.Clone(p.device.weights)
	var uploads [4]*xla.Buffer
	fresh := uploads[:0]
	defer func() {
		for _, b := range fresh {
			if freed := pluginError(b.Destroy()); err == nil && freed != nil {
				err = freed
			}
		}
		if err != nil && out != nil {
			_ = out.Destroy() // the first error is the one to report
			out = nil
		}
	}()
	for i, in := range p.device.inputs {
		if in.Weight != nil {
			continue
		}
		b, err := p.device.upload(arrays[in.Packed], p.device.arrays[in.Packed].DType, p.shapes[in.Packed])
		if err != nil {
			return nil, err
		}
		fresh = append(fresh, b)
		inputs[i] = b
	}
	results, err := p.exe.Execute(inputs...).Done()
	if err != nil {
		return nil, pluginError(err)
	}
	for _, extra := range results[1:] {
		_ = extra.Destroy() // the check at compile time allows none
	}
	return results[0], nil
}
