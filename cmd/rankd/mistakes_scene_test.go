package main

import (
	"bytes"
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rankd/deviceowner/pjrt"
	"rankd/internal/testutil"
)

// file makes a file with a text.
func file(name, text string) func(*testing.T, *scene) {
	return func(t *testing.T, s *scene) {
		t.Helper()
		path := filepath.Join(s.dir, name)
		s.mkdir(t, filepath.Dir(name))
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// partOf finds the first file of the bundle whose path begins with a name.
func (s *scene) partOf(t *testing.T, name string) string {
	t.Helper()
	for _, pattern := range []string{name, name + "*", name + "/*"} {
		found, _ := filepath.Glob(filepath.Join(s.dir, "demo", pattern))
		for _, path := range found {
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
				return path
			}
		}
	}
	t.Fatalf("find %s in the bundle: there is none", name)
	return ""
}

// change rewrites a file of the bundle.
func change(name string, f func(t *testing.T, text []byte) []byte) func(*testing.T, *scene) {
	return func(t *testing.T, s *scene) {
		t.Helper()
		path := s.partOf(t, name)
		text, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path, f(t, text), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func edit(name, from, to string) func(*testing.T, *scene) {
	return change(name, func(t *testing.T, text []byte) []byte {
		if !bytes.Contains(text, []byte(from)) {
			t.Fatalf("edit %s: got no %q in it", name, from)
		}
		return bytes.Replace(text, []byte(from), []byte(to), 1)
	})
}

func truncate(name string) func(*testing.T, *scene) {
	return change(name, func(_ *testing.T, text []byte) []byte { return text[:len(text)/2] })
}

func flip(name string) func(*testing.T, *scene) {
	return change(name, func(_ *testing.T, text []byte) []byte {
		text[len(text)-1] ^= 1
		return text
	})
}

func remove(name string) func(*testing.T, *scene) {
	return func(t *testing.T, s *scene) {
		t.Helper()
		if err := os.Remove(s.partOf(t, name)); err != nil {
			t.Fatal(err)
		}
	}
}

// listener listens at the port of the scene.
func listener(t *testing.T, s *scene) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:"+s.port)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
}

// server serves the bundle at the port of the scene.
func server(t *testing.T, s *scene) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cmd := s.command(ctx, strings.Replace(serveSim, "PORT", s.port, 1), nil)
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &log, &log, 30*time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // it was told to stop; what it has logged stands in the failure below
		if t.Failed() {
			t.Logf("log of the server:\n%s", log.String())
		}
	})
	testutil.Eventually(t, time.Minute, "a server", func() bool {
		return s.command(t.Context(), "inspect ready --listen 127.0.0.1:"+s.port+" --run-dir run", nil).Run() == nil
	})
}

// plugin skips where there is no plugin for the CPU.
func plugin(t *testing.T, s *scene) {
	t.Helper()
	path, err := pjrt.ResolvePlugin("", "cpu")
	if err != nil && os.Getenv("RANKD_REQUIRE_PLUGIN") != "" {
		t.Fatal(err)
	}
	if err != nil {
		t.Skip(err)
	}
	s.plugin = path
}

// mounts skips where mounts are not permitted.
func mounts(t *testing.T, s *scene) {
	t.Helper()
	cmd := s.command(t.Context(), "--version", mounted("tmpfs", "size=1m", "run"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("needs a mount namespace of its own: %v: %s", err, out)
	}
}

// emptyPool skips where there are huge pages to be had.
func emptyPool(t *testing.T, s *scene) {
	t.Helper()
	mounts(t, s)
	text, err := os.ReadFile("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages")
	if err != nil || strings.TrimSpace(string(text)) != "0" {
		t.Skipf("needs a pool without free pages: got %q, %v", text, err)
	}
}

// mounted runs a command where a filesystem is mounted for it alone.
func mounted(kind, options, dir string) func([]string) []string {
	return func(command []string) []string {
		script := "mount -t " + kind + " -o " + options + " none " + dir + ` && exec "$@"`
		return append([]string{"unshare", "--mount", "sh", "-c", script, "sh"}, command...)
	}
}
