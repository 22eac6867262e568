package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"rankd/shmring"
)

// versionText says what this binary was made of.
func versionText() string {
	version, revision, changed := "unknown", "unknown", ""
	if info, ok := debug.ReadBuildInfo(); ok {
		if info.Main.Version != "" {
			version = info.Main.Version
		}
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision":
				revision = s.Value
			case s.Key == "vcs.modified" && s.Value == "true":
				changed = ", with local changes"
			}
		}
	}
	return fmt.Sprintf("rankd %s\nrevision %s%s\n%s %s/%s\nlayout of shared memory %d\n",
		version, revision, changed, runtime.Version(), runtime.GOOS, runtime.GOARCH, shmring.LayoutVersion)
}
