package mounts

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"rankd/internal/testutil"
)

func TestMain(m *testing.M) { testutil.Main(m) }

func TestMountsAreParsed(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "proc/self"), 0o755); err != nil {
		t.Fatal(err)
	}
	text := "30 25 0:27 / /dev/shm rw,relatime shared:3 - tmpfs tmpfs rw,size=24684092k\n" +
		"31 25 0:28 /a /mnt/with\\040space rw - tmpfs tmpfs rw,huge=always\n" +
		"broken line\n"
	if err := os.WriteFile(filepath.Join(root, "proc/self/mountinfo"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	list, err := Read(root)
	if err != nil || len(list) != 2 {
		t.Fatalf("got %+v, %v, want 2 mounts", list, err)
	}
	if m := list[0]; m.Device != "0:27" || m.Root != "/" || m.Point != "/dev/shm" || m.Type != "tmpfs" {
		t.Errorf("first: got %+v", m)
	}
	if m := list[1]; m.Root != "/a" || m.Point != "/mnt/with space" || !slices.Equal(m.Options, []string{"rw", "huge=always"}) {
		t.Errorf("second: got %+v", m)
	}
}

func TestWithoutProcfsIsAnError(t *testing.T) {
	if list, err := Read(t.TempDir()); err == nil {
		t.Errorf("got %+v, want an error", list)
	}
}
