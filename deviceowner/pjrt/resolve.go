package pjrt

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// PathVariable is the environment variable with the first places to look for plugins: files or folders, separated by ":".
const PathVariable = "RANKD_PLUGIN_PATH"

// pluginFiles are the names under which a platform's plugin is known, the usual one first.
var pluginFiles = map[string][]string{
	"cpu":  {"pjrt_c_api_cpu_plugin.so"},
	"cuda": {"xla_cuda_plugin.so", "pjrt_c_api_cuda_plugin.so"},
	"tpu":  {"libtpu.so", "pjrt_c_api_tpu_plugin.so"},
}

// systemFolders hold plugins below a folder with the platform's name.
var systemFolders = []string{filepath.Join(".build", "plugins"), "/usr/lib/rankd/plugins", "/usr/local/lib/rankd/plugins"}

// packagedInstaller is where the package puts it.
const packagedInstaller = "/usr/share/rankd/plugins/install_plugin.sh"

// InstallCommand is what a person runs to install the plugin of a platform with the pinned version: from the repository where this
// is its directory or nothing else is there, else with what the package has brought, into the system's folder.
func InstallCommand(platform string) string {
	const inRepository = "deploy/plugins/install_plugin.sh"
	if _, err := os.Stat(inRepository); err != nil {
		if _, err := os.Stat(packagedInstaller); err == nil {
			return fmt.Sprintf("%s %s /usr/lib/rankd/plugins/%s", packagedInstaller, platform, platform)
		}
	}
	return inRepository + " " + platform
}

// ResolvePlugin returns the absolute path of the plugin to load. A path that is given must be the file itself. Without one
// the platform's plugin is looked for in the files and folders of RANKD_PLUGIN_PATH, then in .build/plugins/<platform> of
// the working directory, then in the system's folders. The error, a permanent one, lists every place
// and the command that installs it.
func ResolvePlugin(path, platform string) (string, error) {
	if path != "" {
		info, err := os.Stat(path)
		if err != nil {
			return "", wrong("open plugin %q: %w%s", path, cause(err), hint(platform))
		}
		if !info.Mode().IsRegular() {
			return "", wrong("open plugin %q: got %s, want a file%s", path, info.Mode().Type(), hint(platform))
		}
		return filepath.Abs(path)
	}
	if pluginFiles[platform] == nil {
		return "", wrong("find plugin: got platform %q, want cpu, cuda or tpu", platform)
	}
	places := candidates(platform, os.Getenv(PathVariable))
	for _, p := range places {
		if info, err := os.Stat(p); err == nil && info.Mode().IsRegular() {
			return filepath.Abs(p)
		}
	}
	return "", wrong("find plugin for %s: there is none%s, or name its file with --plugin (looked for %s)", platform, hint(platform), strings.Join(places, ", "))
}

// candidates lists the files to try, in order.
func candidates(platform, variable string) []string {
	var places []string
	for _, entry := range filepath.SplitList(variable) {
		switch {
		case entry == "":
		case strings.HasSuffix(entry, ".so"):
			places = append(places, entry)
		default:
			for _, name := range pluginFiles[platform] {
				places = append(places, filepath.Join(entry, platform, name), filepath.Join(entry, name))
			}
		}
	}
	for _, folder := range systemFolders {
		for _, name := range pluginFiles[platform] {
			places = append(places, filepath.Join(folder, platform, name))
		}
	}
	return places
}

func hint(platform string) string {
	if platform == "" {
		platform = "cpu|cuda|tpu"
	}
	return "; install it with: " + InstallCommand(platform)
}

// cause drops the operation and path of a path error, which the message already names.
func cause(err error) error {
	if pe, ok := err.(*os.PathError); ok {
		return pe.Err
	}
	return err
}
