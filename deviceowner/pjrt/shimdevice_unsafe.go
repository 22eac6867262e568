package pjrt

// #include "shim.h"
import "C"

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"rankd/internal/dtype"
)

// elementCodes maps our element types to those of the PJRT C API.
var elementCodes = map[dtype.DType]C.int{
	dtype.Bool: C.pj_bool,
	dtype.Int8: C.pj_s8, dtype.Int16: C.pj_s16, dtype.Int32: C.pj_s32, dtype.Int64: C.pj_s64,
	dtype.Uint8: C.pj_u8, dtype.Uint16: C.pj_u16, dtype.Uint32: C.pj_u32, dtype.Uint64: C.pj_u64,
	dtype.Float16: C.pj_f16, dtype.BFloat16: C.pj_bf16, dtype.Float32: C.pj_f32, dtype.Float64: C.pj_f64,
}

// elementName names an element type of the PJRT C API for messages.
func elementName(code int) string {
	for t, c := range elementCodes {
		if int(c) == code {
			return t.String()
		}
	}
	return fmt.Sprintf("element type %d", code)
}

// hostMemory says how long the plugin may use the rows of a batch.
var hostMemory = map[HostMemory]C.int{CopyRows: C.pj_during_call, LendRowsForTransfer: C.pj_until_transfer, LendRows: C.pj_zero_copy}

// shimDevice is the first device of a plugin's client, with the weights on it, through the shim.
type shimDevice struct {
	c          *C.struct_rk_device
	name       string
	identity   identity
	inputs     []Input
	arrays     []Array
	weights    []*C.pj_buffer // per input; nil for a packed array
	scoreBytes int
	semantics  C.int
	options    []byte    // compile options
	ends       *shimEnds // of started runs
	mapped     [][]byte  // host memory that the plugin has prepared for transfers
}

var (
	_ storer = (*shimDevice)(nil)
	_ mapper = (*shimDevice)(nil)
)

// openShim loads the plugin, opens its client and uploads the weights. The caller has set the thread's processors.
func openShim(path string, o *Options) (*shimDevice, error) {
	plugin, err := openPlugin(path)
	if err != nil {
		return nil, err
	}
	options, free, err := namedValues(o.CreateOptions)
	if err != nil {
		return nil, wrong("open device of plugin %q: %w", path, err)
	}
	defer free()
	d := &shimDevice{inputs: o.Inputs, arrays: o.Arrays, scoreBytes: o.ScoreBytes, semantics: hostMemory[o.HostMemory]}
	var f C.struct_rk_failure
	if C.rk_open(plugin.api, options, C.size_t(len(o.CreateOptions)), &d.c, &f) != 0 {
		return nil, fmt.Errorf("open device of plugin %q: %w", path, failure(&f))
	}
	d.identity = identity{
		API:      fmt.Sprintf("%d.%d", plugin.major, plugin.minor),
		Platform: C.GoStringN(d.c.platform, C.int(d.c.platform_size)),
		Version:  C.GoStringN(d.c.version, C.int(d.c.version_size)),
		Kind:     C.GoStringN(d.c.kind, C.int(d.c.kind_size)),
		Devices:  int(d.c.device_count),
	}
	d.name = fmt.Sprintf("pjrt %s (%s, PJRT C API %s)", d.identity.Platform, d.identity.Version, d.identity.API)
	d.options = compileOptions(int(d.c.id))
	if d.ends, err = newShimEnds(o.depth()); err != nil {
		return nil, errors.Join(fmt.Errorf("open device of plugin %q: %w", path, err), d.close())
	}
	if err := d.prepare(path, o); err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

func (d *shimDevice) prepare(path string, o *Options) error {
	if d.c.device_count == 0 {
		return fmt.Errorf("open device of plugin %q: got no device, want at least one", path)
	}
	if got := d.identity.Platform; o.Platform != "" && !samePlatform(o.Platform, got) {
		return wrong("open device of plugin %q: got platform %q, want %q: name another with --plugin, or set --platform", path, got, o.Platform)
	}
	return d.uploadWeights()
}

// uploadWeights starts all transfers and then waits for them, so that they may overlap.
func (d *shimDevice) uploadWeights() error {
	var pins runtime.Pinner // the plugin reads the data after the calls have returned
	defer pins.Unpin()
	d.weights = make([]*C.pj_buffer, len(d.inputs))
	transfers := make([]*C.pj_event, len(d.inputs))
	var err error
	for i, in := range d.inputs {
		if in.Weight == nil {
			continue
		}
		w := in.Weight
		pins.Pin(&w.Data[0])
		dims := make([]C.int64_t, len(w.Shape)+1) // one more, so that a scalar has an address too
		for k, n := range w.Shape {
			dims[k] = C.int64_t(n)
		}
		var f C.struct_rk_failure
		if C.rk_upload(d.c, unsafe.Pointer(&w.Data[0]), elementCodes[w.DType], &dims[0], C.size_t(len(w.Shape)),
			C.pj_until_transfer, &d.weights[i], &transfers[i], &f) != 0 {
			err = fmt.Errorf("upload weight %q %s %v: %w", w.Name, w.DType, w.Shape, failure(&f))
			break
		}
	}
	for i, t := range transfers {
		var f C.struct_rk_failure
		if C.rk_await(d.c, t, &f) != 0 {
			err = errors.Join(err, fmt.Errorf("upload weight %q: %w", d.inputs[i].Weight.Name, failure(&f)))
		}
	}
	return err
}

func (d *shimDevice) describe() string { return d.name }

func (d *shimDevice) next() (arrival, bool) { return d.ends.next() }

func (d *shimDevice) stop() { d.ends.stop() }

func (d *shimDevice) mapHost(mem []byte) error {
	var f C.struct_rk_failure
	if C.rk_dma_map(d.c, unsafe.Pointer(unsafe.SliceData(mem)), C.size_t(len(mem)), &f) != 0 {
		return failure(&f)
	}
	d.mapped = append(d.mapped, mem)
	return nil
}

func (d *shimDevice) identify() identity {
	id := d.identity
	id.Options = d.options
	return id
}

func (d *shimDevice) close() error {
	var errs []error
	for _, mem := range d.mapped {
		var f C.struct_rk_failure
		if C.rk_dma_unmap(d.c, unsafe.Pointer(unsafe.SliceData(mem)), &f) != 0 {
			errs = append(errs, fmt.Errorf("unmap %d bytes of host memory: %w", len(mem), failure(&f)))
		}
	}
	d.mapped = nil
	for _, w := range d.weights {
		if w == nil {
			continue
		}
		var f C.struct_rk_failure
		if C.rk_free_buffer(d.c, w, &f) != 0 {
			errs = append(errs, failure(&f))
		}
	}
	d.weights = nil
	if d.ends != nil {
		d.ends.free()
	}
	var f C.struct_rk_failure
	if C.rk_close(d.c, &f) != 0 {
		errs = append(errs, failure(&f))
	}
	d.c = nil
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close device: %w", err)
	}
	return nil
}

func (d *shimDevice) compile(bucket int, program []byte) (runner, error) {
	if len(program) == 0 {
		return nil, wrong("got an empty program")
	}
	var loaded *C.pj_loaded
	var f C.struct_rk_failure
	if C.rk_compile(d.c, (*C.char)(unsafe.Pointer(&program[0])), C.size_t(len(program)),
		(*C.char)(unsafe.Pointer(&d.options[0])), C.size_t(len(d.options)), &loaded, &f) != 0 {
		return nil, refused(failure(&f))
	}
	return d.checked(bucket, loaded, true)
}

func (d *shimDevice) load(bucket int, image []byte, run bool) (runner, error) {
	if len(image) == 0 {
		return nil, errors.New("got an empty image")
	}
	var loaded *C.pj_loaded
	var f C.struct_rk_failure
	if C.rk_deserialize(d.c, (*C.char)(unsafe.Pointer(&image[0])), C.size_t(len(image)), &loaded, &f) != 0 {
		return nil, failure(&f)
	}
	return d.checked(bucket, loaded, run)
}

func (d *shimDevice) checked(bucket int, loaded *C.pj_loaded, run bool) (runner, error) {
	p := newShimProgram(d, bucket, loaded)
	if err := p.check(run); err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

func (d *shimDevice) serialize(r runner) ([]byte, error) {
	var image C.struct_rk_image
	var f C.struct_rk_failure
	if C.rk_serialize(d.c, r.(*shimProgram).loaded, &image, &f) != 0 {
		return nil, failure(&f)
	}
	return takeImage(&image)
}

// takeImage copies an image and frees it.
func takeImage(image *C.struct_rk_image) ([]byte, error) {
	defer C.rk_image_free(image)
	if image.size == 0 || image.size > 1<<30 {
		return nil, fmt.Errorf("got an image of %d bytes", image.size)
	}
	return C.GoBytes(unsafe.Pointer(image.bytes), C.int(image.size)), nil
}
