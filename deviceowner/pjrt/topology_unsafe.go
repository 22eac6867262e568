package pjrt

// #include <stdlib.h>
// #include "shim.h"
import "C"

import (
	"fmt"
	"unsafe"
)

// topology is a description of devices that need not be there.
type topology struct {
	c        *C.struct_rk_topology
	identity identity
}

func openTopology(plugin *shimPlugin, name string, create map[string]any) (*topology, error) {
	options, free, err := namedValues(create)
	if err != nil {
		return nil, err
	}
	defer free()
	text := C.CString(name)
	defer C.free(unsafe.Pointer(text))
	t := &topology{}
	var f C.struct_rk_failure
	if C.rk_topology_open(plugin.api, text, C.size_t(len(name)), options, C.size_t(len(create)), &t.c, &f) != 0 {
		return nil, failure(&f)
	}
	t.identity = identity{
		API:      fmt.Sprintf("%d.%d", plugin.major, plugin.minor),
		Platform: C.GoStringN(t.c.platform, C.int(t.c.platform_size)),
		Version:  C.GoStringN(t.c.version, C.int(t.c.version_size)),
		Kind:     C.GoStringN(t.c.kind, C.int(t.c.kind_size)),
		Devices:  int(t.c.device_count),
		Options:  compileOptions(int(t.c.id)),
	}
	return t, nil
}

// compile returns the image of a program that gives what the manifest says, as far as the plugin tells.
func (t *topology) compile(program []byte, bucket, scoreBytes int) ([]byte, error) {
	options := t.identity.Options
	var form C.struct_rk_form
	var image C.struct_rk_image
	var f C.struct_rk_failure
	if C.rk_topology_compile(t.c, (*C.char)(unsafe.Pointer(&program[0])), C.size_t(len(program)),
		(*C.char)(unsafe.Pointer(&options[0])), C.size_t(len(options)), &form, &image, &f) != 0 {
		return nil, failure(&f)
	}
	if err := checkForm(&form, bucket, scoreBytes); err != nil {
		C.rk_image_free(&image)
		return nil, err
	}
	return takeImage(&image)
}

func (t *topology) close() error {
	var f C.struct_rk_failure
	C.rk_topology_close(t.c, &f)
	t.c = nil
	return failure(&f)
}
