package launch

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// markName is an environment variable by which processes of a server are known, whoever their parent is by now.
const markName = "BENCH_SERVER"

const (
	endLimit = 2 * time.Second // for processes that end just after their parent
	endPoll  = 10 * time.Millisecond
)

func (s *Server) mark() string { return markName + "=" + s.instance() }

// leftovers ends processes of the server that are still there and names them, and files of its in shared memory.
func (s *Server) leftovers() error {
	var errs []error
	pids := s.processes()
	tick := time.NewTicker(endPoll)
	defer tick.Stop()
	for end := time.Now().Add(endLimit); len(pids) > 0 && time.Now().Before(end); pids = s.processes() {
		<-tick.C
	}
	for _, pid := range pids {
		name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)) // for the message only
		errs = append(errs, fmt.Errorf("process %d (%s) was left behind", pid, strings.TrimSpace(string(name))), unix.Kill(pid, unix.SIGKILL))
	}
	for _, path := range s.files() {
		errs = append(errs, fmt.Errorf("%s was left behind", path), os.Remove(path))
	}
	return errors.Join(errs...)
}

// processes lists those that have our mark in their environment.
func (s *Server) processes() []int {
	var list []int
	paths, _ := filepath.Glob("/proc/[0-9]*/environ")
	want := []byte(s.mark())
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended, or is another user's
		}
		for _, v := range bytes.Split(text, []byte{0}) {
			if bytes.Equal(v, want) {
				pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path))) // digits
				list = append(list, pid)
			}
		}
	}
	return list
}

// files lists what has the server's name in it on filesystems of memory.
func (s *Server) files() []string { return filesInMemory(s.instance()) }

// filesInMemory lists what has a text in its name on filesystems of memory.
func filesInMemory(part string) []string {
	mounts, _ := os.ReadFile("/proc/mounts")
	var list []string
	for _, line := range strings.Split(string(mounts), "\n") {
		fields := strings.Fields(line)
		if len(fields) < 3 || (fields[2] != "tmpfs" && fields[2] != "hugetlbfs") || strings.HasPrefix(os.TempDir()+"/", fields[1]+"/") {
			continue // the run directory, which is removed anyway, may be on a tmpfs as well
		}
		found, _ := filepath.Glob(filepath.Join(fields[1], "*"+part+"*"))
		list = append(list, found...)
	}
	return list
}
