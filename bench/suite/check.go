package suite

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"

	"golang.org/x/sys/unix"

	"rankd/bench/exam"
)

// Check finds mistakes in options before any work begins, and warns of what may be meant. It starts nothing.
func (o *Options) Check() (warnings []string, err error) {
	errs := []error{o.validate()}
	if o.Name == "" || o.Name == "." || o.Name == ".." || filepath.Base(o.Name) != o.Name {
		errs = append(errs, fmt.Errorf("check --name: got %q, want a name of a folder, without a path", o.Name))
	}
	if err := exam.CheckIDs(o.IDs); err != nil {
		errs = append(errs, fmt.Errorf("check --ids: %w", err))
	}
	if o.Python != "" {
		if path, err := exec.LookPath(o.Python); err != nil && !errors.Is(err, exec.ErrDot) {
			errs = append(errs, fmt.Errorf("check --python: %w: want an interpreter", err))
		} else if info, err := os.Stat(path); err == nil && info.IsDir() {
			errs = append(errs, fmt.Errorf("check --python: got the directory %s, want an interpreter", path))
		}
	}
	for _, x := range []struct {
		flag string
		cpus []int
	}{{"server-cpus", o.ServerCPUs}, {"client-cpus", o.ClientCPUs}} {
		if lacking, err := unusable(x.cpus); err != nil || len(lacking) > 0 {
			errs = append(errs, errors.Join(err, fmt.Errorf("check --%s: got %v, want processors that this process may use: it may not use %v", x.flag, x.cpus, lacking)))
		}
	}
	both := slices.DeleteFunc(slices.Clone(o.ServerCPUs), func(n int) bool { return !slices.Contains(o.ClientCPUs, n) })
	if len(both) > 0 {
		warnings = append(warnings, fmt.Sprintf("--server-cpus and --client-cpus both have %v: the load generator takes time from the servers", both))
	}
	return warnings, errors.Join(errs...)
}

// unusable lists processors that the kernel does not give: it is asked, on a thread that ends afterwards.
func unusable(cpus []int) ([]int, error) {
	var want, got unix.CPUSet
	for _, n := range cpus {
		want.Set(n) // beyond the largest set: ignored
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		err := unix.SchedSetaffinity(0, &want)
		switch {
		case errors.Is(err, unix.EINVAL): // none of them
			err = nil
		case err == nil:
			err = unix.SchedGetaffinity(0, &got)
		}
		done <- err
	}()
	if err := <-done; err != nil {
		return nil, fmt.Errorf("use processors %v: %w", cpus, err)
	}
	return slices.DeleteFunc(slices.Clone(cpus), func(n int) bool { return n >= 0 && got.IsSet(n) }), nil
}
