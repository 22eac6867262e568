package supervisor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAddressesThatCannotBeServedAtOnceAreRefused(t *testing.T) {
	for _, c := range []struct {
		listen, http string
		want         string // in the error; empty: none
	}{
		{"127.0.0.1:8500", "127.0.0.1:8501", ""},
		{"127.0.0.1:8500", "127.0.0.2:8500", ""},
		{"127.0.0.1:8500", "", ""},
		{"127.0.0.1:0", "127.0.0.1:0", ""},
		{"127.0.0.1:8500", "127.0.0.1:8500", "check --http: got 127.0.0.1:8500, which --listen"},
		{"0.0.0.0:8500", "127.0.0.1:8500", "check --http"},
		{"127.0.0.1:8500", ":8500", "check --http"},
		{":8500", "[::1]:8500", "check --http"},
		{"0.0.0.0:8500", "[::1]:8500", ""},
		{"127.0.0.1", "127.0.0.1:8501", "check --listen: got \"127.0.0.1\""},
		{"127.0.0.1:8500", "127.0.0.1:x", "check --http: got \"127.0.0.1:x\""},
	} {
		cfg := Default()
		cfg.Listen, cfg.HTTP = c.listen, c.http
		err := cfg.Validate()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("--listen %s --http %s: got %v, want %q", c.listen, c.http, err, c.want)
		}
	}
}

func TestDirectoryForSharedMemoryMustBeOne(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{file, file + ".missing"} {
		cfg := Default()
		cfg.ShmDir = dir
		if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), "check --shm-dir: got \""+dir+"\"") {
			t.Errorf("--shm-dir %s: got %v, want it refused", dir, err)
		}
	}
}

func TestServerOnAllAddressesIsFoundByEach(t *testing.T) {
	dir := t.TempDir()
	self, err := identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for instance, s := range map[string]State{
		"wild":  {Listen: "[::]:8500", PID: self.PID, Start: self.Start},
		"exact": {Listen: "127.0.0.2:8500", PID: self.PID, Start: self.Start},
		"dead":  {Listen: "0.0.0.0:8500", PID: self.PID, Start: self.Start + 1},
		"other": {Listen: "127.0.0.1:8600", PID: self.PID, Start: self.Start},
	} {
		s.Version, s.Instance = stateVersion, instance
		if err := s.write(dir); err != nil {
			t.Fatal(err)
		}
	}
	for listen, want := range map[string]string{"127.0.0.1:8500": "wild", ":8500": "wild", "127.0.0.2:8500": "exact", ":8600": "other"} {
		if s, err := FindState(dir, "", listen); err != nil || s.Instance != want {
			t.Errorf("find %s: got %+v, %v, want %s", listen, s, err, want)
		}
	}
	if s, err := FindState(dir, "", "127.0.0.1:8700"); err == nil {
		t.Errorf("got server %+v where there is none", s)
	}
}
