package pjrttest

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"rankd/deviceowner/pjrt"
)

// CPU returns the path of the CPU plugin: from RANKD_PLUGIN_PATH or an installed place, or from the repository's
// .build/plugins/cpu, whichever folder the test runs in.
func CPU(t testing.TB) string {
	return find(t, "cpu", "pjrt_c_api_cpu_plugin.so", "RANKD_REQUIRE_PLUGIN")
}

// TPU is CPU for libtpu, which can compile where there is no TPU.
func TPU(t testing.TB) string { return find(t, "tpu", "libtpu.so", "RANKD_REQUIRE_TPU_PLUGIN") }

func find(t testing.TB, platform, file, require string) string {
	t.Helper()
	path, err := pjrt.ResolvePlugin("", platform)
	if err == nil {
		return path
	}
	if root := repository(); root != "" {
		path, other := pjrt.ResolvePlugin(filepath.Join(root, ".build", "plugins", platform, file), platform)
		if other == nil {
			return path
		}
	}
	if os.Getenv(require) != "" {
		t.Fatal(err)
	}
	t.Skipf("no %s plugin: run %s", platform, pjrt.InstallCommand(platform))
	return ""
}

// Batch replaces the token @B@ in a program with the batch size.
func Batch(text string) func(batch int) ([]byte, error) {
	return func(batch int) ([]byte, error) {
		return []byte(strings.ReplaceAll(text, "@B@", strconv.Itoa(batch))), nil
	}
}

// repository returns the folder with go.mod above the working directory.
func repository() string {
	dir, err := os.Getwd()
	if err != nil {
		return ""
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		up := filepath.Dir(dir)
		if up == dir {
			return ""
		}
		dir = up
	}
}
