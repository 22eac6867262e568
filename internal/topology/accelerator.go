package topology

import (
	"path/filepath"
	"slices"
	"strings"
)

// Accelerator is a PCI device on which a plugin executes.
type Accelerator struct {
	Address string // such as "0000:07:00.0"
	Node    int    // -1: the firmware does not tell
}

// kindOfDevice says how to know the devices of a platform in sysfs.
type kindOfDevice struct {
	vendor  string
	classes []string // beginnings of the class; empty: any
	devices []string // empty: any
}

// The devices of Google's vendor number are also network cards and disks, so TPUs are known by their own numbers; a new
// generation that is not listed is not found, and then its node is unknown.
var kindsOfDevices = map[string]kindOfDevice{
	"cuda": {vendor: "0x10de", classes: []string{"0x0300", "0x0302"}},
	"tpu":  {vendor: "0x1ae0", devices: []string{"0x0027", "0x0056", "0x005e", "0x0062", "0x0063", "0x006f", "0x0076"}},
}

// Accelerators finds the devices of a platform ("cuda" or "tpu") in the order of their addresses. Other platforms have none.
func Accelerators(root, platform string) []Accelerator {
	kind, known := kindsOfDevices[platform]
	if !known {
		return nil
	}
	r := reader{root}
	dirs, _ := filepath.Glob(filepath.Join(root, "/sys/bus/pci/devices/*"))
	var list []Accelerator
	for _, dir := range dirs {
		address := filepath.Base(dir)
		at := "sys/bus/pci/devices/" + address + "/"
		vendor, _ := r.text(at + "vendor")
		class, _ := r.text(at + "class")
		device, _ := r.text(at + "device")
		if vendor != kind.vendor || len(kind.devices) > 0 && !slices.Contains(kind.devices, device) ||
			len(kind.classes) > 0 && !slices.ContainsFunc(kind.classes, func(c string) bool { return strings.HasPrefix(class, c) }) {
			continue
		}
		list = append(list, Accelerator{address, max(r.number(at+"numa_node"), -1)})
	}
	return list
}

// NodesOfAccelerators are the nodes that some devices are on, without those that are not told.
func NodesOfAccelerators(list []Accelerator) Set {
	var nodes []int
	for _, a := range list {
		if a.Node >= 0 {
			nodes = append(nodes, a.Node)
		}
	}
	return SetOf(nodes...)
}
