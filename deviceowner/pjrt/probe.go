package pjrt

import (
	"fmt"
)

// Found is what a plugin says of itself and of its devices.
type Found struct {
	Path     string `json:"path"`
	API      string `json:"api,omitempty"`      // version of the PJRT C API; set when the plugin is loaded
	Platform string `json:"platform,omitempty"` // these are set when its client is open
	Version  string `json:"version,omitempty"`
	Kind     string `json:"kind,omitempty"`
	Devices  int    `json:"devices,omitempty"`
}

// Probe looks for the plugin of a platform as an executor does, loads it and, if open is set, opens its client and closes it
// again. loaded is called in between. What a plugin may do, crashing included, it does to this process.
func Probe(path, platform string, open bool, loaded func(Found)) (f Found, err error) {
	if f.Path, err = ResolvePlugin(path, platform); err != nil {
		return f, err
	}
	plugin, err := openPlugin(f.Path)
	if err != nil {
		return f, err
	}
	f.API = fmt.Sprintf("%d.%d", plugin.major, plugin.minor)
	loaded(f)
	if !open {
		return f, nil
	}
	d, err := openShim(f.Path, &Options{Platform: platform, Depth: 1})
	if err != nil {
		return f, lasting(err)
	}
	id := d.identify()
	f.Platform, f.Version, f.Kind, f.Devices = id.Platform, firstLine(id.Version), id.Kind, id.Devices
	return f, d.close()
}
