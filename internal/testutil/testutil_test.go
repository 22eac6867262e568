package testutil

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { Main(m) }

func TestI1EveryKindOfLeakIsFound(t *testing.T) {
	before := observe()
	if leaks := differences(before, observe()); len(leaks) != 0 {
		t.Fatalf("got leaks %q before anything was leaked", leaks)
	}
	fd, err := unix.MemfdCreate("rankd-leak", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Ftruncate(fd, 4096); err != nil {
		t.Fatal(err)
	}
	mem, err := unix.Mmap(fd, 0, 4096, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(mem) }()
	file := "/dev/shm/rankd." + Instance(t) + ".leak"
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(file)
	sleeper := exec.Command("sleep", "60")
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sleeper.Process.Kill(); _ = sleeper.Wait() }()

	leaks := strings.Join(differences(before, observe()), "\n")
	for _, want := range []string{"descriptor", "mappings of /memfd:rankd-leak", "file " + file, "child process"} {
		if !strings.Contains(leaks, want) {
			t.Errorf("got leaks %q, want one with %q", leaks, want)
		}
	}
}

func TestI2FilesOfOthersAreNotCounted(t *testing.T) {
	before := observe()
	file := "/dev/shm/rankd.other-" + Instance(t) + ".x"
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(file)
	if leaks := differences(before, observe()); len(leaks) != 0 {
		t.Errorf("got leaks %q, want none", leaks)
	}
}
