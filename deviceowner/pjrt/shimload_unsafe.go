package pjrt

// #cgo CFLAGS: -std=gnu11 -O2 -Wall -Wextra
// #cgo LDFLAGS: -ldl
// #include <stdlib.h>
// #include "shim.h"
import "C"

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"unsafe"
)

// shimPlugin is the function table of a loaded plugin.
type shimPlugin struct {
	api          *C.struct_pj_api
	major, minor int
}

// plugins are those that this process has loaded, by path. They stay loaded: XLA cannot be unloaded.
var plugins = struct {
	mu     sync.Mutex
	loaded map[string]*shimPlugin
}{loaded: map[string]*shimPlugin{}}

// openPlugin checks the file, asks the plugin to be quiet, and loads it.
func openPlugin(path string) (*shimPlugin, error) {
	if err := checkLibrary(path); err != nil {
		return nil, err
	}
	quietPlugin()
	p, err := loadPlugin(path)
	if err != nil {
		return nil, notLoaded(path, err)
	}
	return p, nil
}

func loadPlugin(path string) (*shimPlugin, error) {
	plugins.mu.Lock()
	defer plugins.mu.Unlock()
	if p := plugins.loaded[path]; p != nil {
		return p, nil
	}
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	var f C.struct_rk_failure
	var api *C.struct_pj_api
	if C.rk_load(name, &api, &f) != 0 {
		err := failure(&f)
		if api != nil {
			err = fmt.Errorf("got %d.%d: %w", int(api.version.major), int(api.version.minor), err)
		}
		return nil, err
	}
	p := &shimPlugin{api: api, major: int(api.version.major), minor: int(api.version.minor)}
	plugins.loaded[path] = p
	return p, nil
}

// failure makes an error of what a shim function left behind and frees it. It returns nil if nothing failed.
func failure(f *C.struct_rk_failure) error {
	if f.code == 0 {
		return nil
	}
	code, text := int(f.code), C.GoStringN(f.text, C.int(min(f.size, 1<<20)))
	C.rk_failure_free(f)
	if code < 0 {
		return errors.New(text)
	}
	return newError(code, text)
}

// objectsAlive returns how many objects of each kind the shim holds in this process.
func objectsAlive() map[string]int {
	return map[string]int{
		"clients": int(C.rk_alive(C.rk_clients)), "buffers": int(C.rk_alive(C.rk_buffers)),
		"programs": int(C.rk_alive(C.rk_programs)), "events": int(C.rk_alive(C.rk_events)),
		"topologies": int(C.rk_alive(C.rk_topologies)),
	}
}

// namedValues makes the array of options for a client, in C memory. free must be called when the client is open.
func namedValues(options map[string]any) (list *C.struct_pj_named, free func(), err error) {
	if len(options) == 0 {
		return nil, func() {}, nil
	}
	var owned []unsafe.Pointer
	free = func() {
		for _, p := range owned {
			C.free(p)
		}
	}
	list = C.rk_named_array(C.size_t(len(options)))
	if list == nil {
		return nil, nil, errors.New("no memory")
	}
	owned = append(owned, unsafe.Pointer(list))
	text := func(s string) *C.char {
		c := C.CString(s)
		owned = append(owned, unsafe.Pointer(c))
		return c
	}
	for i, name := range slices.Sorted(maps.Keys(options)) {
		n := &unsafe.Slice(list, len(options))[i]
		n.name, n.name_size = text(name), C.size_t(len(name))
		switch v := options[name].(type) {
		case string:
			C.rk_named_string(n, text(v), C.size_t(len(v)))
		case int64:
			C.rk_named_int64(n, C.int64_t(v))
		case []int64:
			numbers := (*C.int64_t)(C.calloc(C.size_t(len(v)+1), 8))
			owned = append(owned, unsafe.Pointer(numbers))
			copy(unsafe.Slice((*int64)(unsafe.Pointer(numbers)), len(v)), v)
			C.rk_named_int64_list(n, numbers, C.size_t(len(v)))
		case float32:
			C.rk_named_float(n, C.float(v))
		case bool:
			C.rk_named_bool(n, C.bool(v))
		default:
			free()
			return nil, nil, fmt.Errorf("option %q: got a %T, want string, int64, []int64, float32 or bool", name, v)
		}
	}
	return list, free, nil
}
