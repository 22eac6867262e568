package pjrt

import (
	"encoding/json"
	"fmt"
	"os"

	"rankd/deviceowner/pjrt/execache"
)

// keys are those of a device's images, without program and bucket.
type keys struct {
	own   execache.Key // of what is compiled on the device itself
	ahead execache.Key // of what is compiled for such a device where there is none
}

// keysOf says what images depend on: the digest of the plugin's file, the device, its client's options, the number of a CPU device's threads.
func keysOf(plugin string, id identity, client map[string]any, threads int) keys {
	return keys{
		own: execache.Key{
			Plugin: plugin, API: id.API, Platform: id.Platform, Version: id.Version, Device: id.Kind,
			Host: hostDigest(), Options: optionsDigest(id.Options, client, threads),
		},
		ahead: aheadKey(plugin, id),
	}
}

// aheadKey is the key of images that are compiled without a device.
func aheadKey(plugin string, id identity) execache.Key {
	return execache.Key{
		Plugin: plugin, API: id.API, Platform: id.Platform, Device: id.Kind, Devices: id.Devices,
		Options: optionsDigest(id.Options, nil, 0),
	}
}

// keyFor completes a key with a program.
func keyFor(base execache.Key, bucket int, text []byte) execache.Key {
	base.Program, base.Bucket = digest(text), bucket
	return base
}

// optionsDigest stands for what the compiler looks at besides the program. encoding/json writes maps in the order of their keys.
func optionsDigest(compile []byte, client map[string]any, threads int) string {
	text, err := json.Marshal(struct {
		Compile []byte
		Client  map[string]any
		Threads int
		Flags   []string
	}{compile, client, threads, []string{os.Getenv("XLA_FLAGS"), os.Getenv("LIBTPU_INIT_ARGS")}})
	if err != nil {
		text = fmt.Appendf(nil, "%v", client) // values without a JSON form, such as an infinite float
	}
	return digest(text)
}

// ProgramDigest is what stands for a program in keys.
func ProgramDigest(text []byte) string { return digest(text) }
