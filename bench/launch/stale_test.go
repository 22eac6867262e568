package launch

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFilesOfKilledServersAreRemovedUnlessSomebodyHoldsThem(t *testing.T) {
	ours := fmt.Sprintf("%s%d", dirPrefix, os.Getpid()) // what others left is not this test's to remove
	create := func(n int) (*os.File, string) {
		path := filepath.Join("/dev/shm", fmt.Sprintf("rankd.%s%d.tables.test", ours, n))
		f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
		if err != nil {
			t.Skipf("no shared memory: %v", err)
		}
		t.Cleanup(func() { _, _ = f.Close(), os.Remove(path) }) // it may be gone, which is what is tested
		return f, path
	}
	left, stale := create(1)
	if err := left.Close(); err != nil {
		t.Fatal(err)
	}
	_, used := create(2)
	messages, err := clearStale(ours)
	text := strings.Join(messages, "\n")
	if err != nil || !strings.Contains(text, "removed "+stale) || !strings.Contains(text, fmt.Sprintf("%s of an earlier server stays: process %d uses it", used, os.Getpid())) {
		t.Errorf("got %v and\n%s", err, text)
	}
	if _, err := os.Stat(stale); !os.IsNotExist(err) {
		t.Errorf("the file that nobody holds: got %v, want it gone", err)
	}
	if _, err := os.Stat(used); err != nil {
		t.Errorf("the file that is held: %v", err)
	}
}
