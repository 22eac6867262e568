package launch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
)

// dirPrefix begins the names of run directories, and so of all instances that were ever started here.
const dirPrefix = "rankd-bench-"

var instanceName = regexp.MustCompile(dirPrefix + `[0-9]+`)

// ClearStale removes files in shared memory of servers whose starter was killed, so that nobody stopped them, and names what it removed
// and what it left. A file stays while any process holds it, or a process of its server runs: a server between two incarnations may hold
// none of its files.
func ClearStale() (messages []string, err error) { return clearStale(dirPrefix) }

// clearStale does so with files that have a text in their names.
func clearStale(part string) (messages []string, err error) {
	var errs []error
	for _, path := range filesInMemory(part) {
		info, err := os.Lstat(path)
		if err != nil || !info.Mode().IsRegular() || int(info.Sys().(*syscall.Stat_t).Uid) != os.Geteuid() {
			continue // gone, or another user's
		}
		instance := instanceName.FindString(filepath.Base(path))
		if instance == "" {
			continue
		}
		if pid := holder(path, markName+"="+instance); pid != "" {
			messages = append(messages, fmt.Sprintf("%s of an earlier server stays: process %s uses it", path, pid))
			continue
		}
		if err := os.Remove(path); err != nil {
			errs = append(errs, fmt.Errorf("remove what an earlier server left: %w", err))
			continue
		}
		messages = append(messages, fmt.Sprintf("removed %s (%d MiB): its server was killed and left it", path, info.Size()>>20))
	}
	return messages, errors.Join(errs...)
}

// holder finds a process that has a file open or mapped, or a variable in its environment; "": there is none that can be seen.
func holder(path, variable string) string {
	processes, _ := filepath.Glob("/proc/[0-9]*") // the pattern is right
	for _, p := range processes {
		environ, _ := os.ReadFile(filepath.Join(p, "environ")) // ended meanwhile, or another user's
		maps, _ := os.ReadFile(filepath.Join(p, "maps"))       // the same
		if strings.Contains("\x00"+string(environ), "\x00"+variable+"\x00") || strings.Contains(string(maps), " "+path+"\n") {
			return filepath.Base(p)
		}
		descriptors, _ := filepath.Glob(filepath.Join(p, "fd", "*")) // the same
		for _, d := range descriptors {
			if to, err := os.Readlink(d); err == nil && to == path {
				return filepath.Base(p)
			}
		}
	}
	return ""
}
