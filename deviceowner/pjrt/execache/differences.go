package execache

import (
	"fmt"
	"strconv"
)

// Differences says for people in which fields the key of an image differs from the wanted one.
func (k Key) Differences(want Key) []string {
	differences := []string{}
	for _, f := range []struct{ name, got, want string }{
		{"plugin file", short(k.Plugin), short(want.Plugin)},
		{"PJRT C API", k.API, want.API},
		{"platform", k.Platform, want.Platform},
		{"version", quote(k.Version), quote(want.Version)},
		{"kind of device", quote(k.Device), quote(want.Device)},
		{"number of devices", strconv.Itoa(k.Devices), strconv.Itoa(want.Devices)},
		{"processor", short(k.Host), short(want.Host)},
		{"options", short(k.Options), short(want.Options)},
		{"program", short(k.Program), short(want.Program)},
		{"batch size", strconv.Itoa(k.Bucket), strconv.Itoa(want.Bucket)},
	} {
		if f.got != f.want {
			differences = append(differences, fmt.Sprintf("%s: got %s, want %s", f.name, f.got, f.want))
		}
	}
	return differences
}

// short abridges a digest.
func short(digest string) string {
	if digest == "" {
		return "none"
	}
	return digest[:min(len(digest), 12)]
}

// quote keeps a plugin's texts, which may have several lines, on one.
func quote(text string) string { return fmt.Sprintf("%.120q", text) }
