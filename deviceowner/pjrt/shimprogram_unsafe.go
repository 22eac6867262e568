package pjrt

// #include "shim.h"
import "C"

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"unsafe"
)

// shimProgram is a loaded program for one batch size.
type shimProgram struct {
	device *shimDevice
	loaded *C.pj_loaded
	bucket int

	mu   sync.Mutex  // guards idle; taken shortly, twice a batch
	idle []*shimCall // as many as there were ever runs at once
}

// shimCall is the memory of one run. It is used by one run at a time and again by later ones.
type shimCall struct {
	program *shimProgram
	c       *C.struct_rk_call
	data    []unsafe.Pointer // aliases c.data
	pins    runtime.Pinner   // rows and scores on the Go heap, whose addresses lie in C memory during a run
}

func newShimProgram(d *shimDevice, bucket int, loaded *C.pj_loaded) *shimProgram {
	return &shimProgram{device: d, loaded: loaded, bucket: bucket}
}

func (p *shimProgram) close() error {
	for _, c := range p.idle {
		C.rk_call_free(c.c)
	}
	p.idle = nil
	var f C.struct_rk_failure
	C.rk_free_program(p.device.c, p.loaded, &f)
	p.loaded = nil
	return failure(&f)
}

// take returns a call that no other run uses.
func (p *shimProgram) take() (*shimCall, error) {
	p.mu.Lock()
	if n := len(p.idle); n > 0 {
		c := p.idle[n-1]
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		return c, nil
	}
	p.mu.Unlock()
	return p.newCall()
}

func (p *shimProgram) put(c *shimCall) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = append(p.idle, c)
}

func (p *shimProgram) newCall() (*shimCall, error) {
	d := p.device
	c := C.rk_call_new(d.c, p.loaded, C.size_t(len(d.inputs)), C.size_t(len(d.arrays)), d.semantics)
	if c == nil {
		return nil, newError(int(CodeResourceExhausted), "no memory for a call")
	}
	for i, in := range d.inputs {
		if in.Weight != nil {
			C.rk_call_weight(c, C.size_t(i), d.weights[i])
			continue
		}
		a := d.arrays[in.Packed]
		if C.rk_call_array(c, C.size_t(in.Packed), C.size_t(i), elementCodes[a.DType], C.int64_t(p.bucket), C.int64_t(a.Stride/a.DType.Size())) == 0 {
			C.rk_call_free(c)
			return nil, newError(int(CodeResourceExhausted), "no memory for a call")
		}
	}
	return &shimCall{program: p, c: c, data: unsafe.Slice((*unsafe.Pointer)(unsafe.Pointer(c.data)), len(d.arrays))}, nil
}

func (p *shimProgram) run(arrays [][]byte, scores []byte) error {
	return p.runForm(arrays, scores, nil)
}

// runForm is one batch in one cgo call. With a form it also finds out what the program returned.
func (p *shimProgram) runForm(arrays [][]byte, scores []byte, form *C.struct_rk_form) error {
	c, err := p.take()
	if err != nil {
		return err
	}
	c.lend(arrays, scores)
	C.rk_run(c.c, unsafe.Pointer(unsafe.SliceData(scores)), C.size_t(len(scores)), form)
	return c.release()
}

// start begins a batch in one cgo call. If the batch is not over at its end, it arrives under the tag at the device's ends.
func (p *shimProgram) start(arrays [][]byte, scores []byte, tag int) (over bool, err error) {
	c, err := p.take()
	if err != nil {
		return true, err
	}
	c.lend(arrays, scores)
	ends := p.device.ends
	ends.expect(tag, c) // first, since the end may arrive before rk_start returns
	if C.rk_start(c.c, unsafe.Pointer(unsafe.SliceData(scores)), C.size_t(len(scores)), ends.c, C.int(tag)) == 0 {
		return false, nil // from here on the call is the plugin's
	}
	return true, c.release()
}

// lend puts the rows into the call and pins what lies on the Go heap, until release.
func (c *shimCall) lend(arrays [][]byte, scores []byte) {
	for i, a := range arrays {
		first := unsafe.Pointer(unsafe.SliceData(a))
		c.pins.Pin(first) // does nothing for memory outside the Go heap
		c.data[i] = first
	}
	c.pins.Pin(unsafe.Pointer(unsafe.SliceData(scores)))
}

// release gives the call back after its run and returns what the run said.
func (c *shimCall) release() (err error) {
	clear(c.data)
	c.pins.Unpin()
	if c.c.failure.code != 0 {
		err = failure(&c.c.failure)
	}
	c.program.put(c)
	return err
}

// check compares the result's form with the manifest's, first as the program states it and then as a run on zeros gives it.
// The run also pays the device's first-run costs before any request does. It is left out if run is not set and the program
// did state its form.
func (p *shimProgram) check(run bool) error {
	var form C.struct_rk_form
	var f C.struct_rk_failure
	if C.rk_program_form(p.device.c, p.loaded, &form, &f) != 0 {
		return fmt.Errorf("check program: %w", failure(&f))
	}
	if err := checkForm(&form, p.bucket, p.device.scoreBytes); err != nil || form.known != 0 && !run {
		return err
	}
	rows, free, err := zeroRows(p.device.arrays, p.bucket)
	if err != nil {
		return err
	}
	defer free()
	scores := make([]byte, p.bucket*p.device.scoreBytes)
	form = C.struct_rk_form{}
	err = p.runForm(rows, scores, &form)
	if form.count != 0 {
		if wrong := compareForm(&form, p.bucket, p.device.scoreBytes); wrong != nil {
			return wrong
		}
	}
	if err != nil {
		return fmt.Errorf("run program on zeros: %w", err)
	}
	return nil
}

// checkForm compares what a program says that it returns, as far as it does, with the manifest.
func checkForm(form *C.struct_rk_form, bucket, scoreBytes int) error {
	if form.count != 1 {
		return wrong("check program: got %d results, want 1 of float32 %v", form.count, wantShape(bucket, scoreBytes))
	}
	if form.known == 0 {
		return nil
	}
	return compareForm(form, bucket, scoreBytes)
}

func wantShape(bucket, scoreBytes int) []int { return []int{bucket, scoreBytes / 4} }

func compareForm(form *C.struct_rk_form, bucket, scoreBytes int) error {
	want := wantShape(bucket, scoreBytes)
	if form.dim_count > C.rk_max_dims {
		return wrong("check program: got a result of %d dimensions, want float32 %v", form.dim_count, want)
	}
	var shape []int
	for _, n := range form.dims[:form.dim_count] {
		shape = append(shape, int(n))
	}
	flat := scoreBytes == 4 && slices.Equal(shape, []int{bucket})
	if form._type != C.pj_f32 || !(flat || slices.Equal(shape, want)) {
		return wrong("check program: got result %s %v, want float32 %v", elementName(int(form._type)), shape, want)
	}
	return nil
}
