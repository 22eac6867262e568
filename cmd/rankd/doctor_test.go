package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"rankd/internal/doctor"
	"rankd/internal/testutil"
	"rankd/internal/topology"
)

// examined runs the real command and gives its findings as "group/check", and its exit code.
func (s *scene) examined(t *testing.T, line string) (found map[string]doctor.Finding, code int) {
	t.Helper()
	out, err := s.command(t.Context(), line+" --json", nil).Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	var report struct{ Findings []doctor.Finding }
	if err := json.Unmarshal(out, &report); err != nil {
		t.Fatalf("%v from %q", err, out)
	}
	found = map[string]doctor.Finding{}
	for _, f := range report.Findings {
		found[f.Group+"/"+f.Check] = f
	}
	if exit != nil {
		code = exit.ExitCode()
	}
	return found, code
}

func newDemoScene(t *testing.T) *scene {
	t.Helper()
	return newScene(t, testutil.Binary(t), smallModel(t).Dir)
}

func TestDoctorOpensThePluginsDevice(t *testing.T) {
	s := newDemoScene(t)
	plugin(t, s)
	line := "doctor --model demo --run-dir run --listen 127.0.0.1:PORT --http 127.0.0.1:0 --executable-cache run/cache --plugin PLUGIN"
	found, code := s.examined(t, line)
	if f := found["plugin/load"]; f.State != doctor.OK || !strings.HasPrefix(f.Found, "PJRT C API 0.") {
		t.Errorf("got %+v", f)
	}
	if f := found["plugin/device"]; f.State != doctor.OK || !strings.Contains(f.Found, "× cpu (cpu, ") {
		t.Errorf("got %+v", f)
	}
	if code != 0 {
		t.Errorf("got exit code %d from %+v", code, found)
	}
	found, _ = s.examined(t, line+" --platform cuda")
	if f := found["plugin/device"]; f.State != doctor.Fail || !strings.Contains(f.Found, `got platform "cpu", want "cuda"`) {
		t.Errorf("got %+v", f)
	}
	found, _ = s.examined(t, line+" --no-device")
	if f := found["plugin/device"]; f.State != doctor.OK || !strings.Contains(f.Found, "not opened") {
		t.Errorf("got %+v", f)
	}
}

func TestDoctorShowsThePlacementAndWhatBecameOfIt(t *testing.T) {
	everywhere, err := topology.Affinity("", "self")
	if err != nil || len(everywhere) < 2 {
		t.Skipf("keeps processes from CPUs: want two to choose from, got %s, %v", everywhere, err)
	}
	only := topology.Set{everywhere[0]}.String()
	s := newDemoScene(t)
	line := "doctor --model demo --executor sim --run-dir run --listen 127.0.0.1:PORT --http 127.0.0.1:0"
	found, code := s.examined(t, line+" --placement cpus="+only)
	if f := found["placement/plan"]; code != 0 || f.State != doctor.OK || !strings.Contains(f.Found, "frontend 0: CPUs "+only+"\n") {
		t.Errorf("without a server: got exit code %d and %+v", code, f)
	}
	if f := found["placement/topology"]; f.State != doctor.OK || !strings.Contains(f.Found, " CPUs (") || !strings.Contains(f.Found, "node 0: ") {
		t.Errorf("got %+v", f)
	}
	found, code = s.examined(t, line+" --placement cpus=8000")
	if f := found["placement/plan"]; code != 1 || f.State != doctor.Fail || !strings.Contains(f.Found, "got CPU 8000") {
		t.Errorf("CPU that is not there: got exit code %d and %+v", code, f)
	}
	server(t, s)
	if found, _ = s.examined(t, line); found["placement/effective"].State != doctor.OK {
		t.Errorf("server with these flags: got %+v", found["placement/effective"])
	}
	found, code = s.examined(t, line+" --placement cpus="+only)
	f := found["placement/effective"]
	want := fmt.Sprintf("runs on CPUs %s, want %s", everywhere, only)
	if code != 0 || f.State != doctor.Warn || strings.Count(f.Found, want) != 2 || len(f.Commands) != 1 {
		t.Errorf("server that is not pinned: got exit code %d and %+v, want %q of two processes", code, f, want)
	}
}

// A plugin may do anything to its process.
func TestDoctorSurvivesThePlugin(t *testing.T) {
	s := newDemoScene(t)
	for name, c := range map[string]struct{ code, found string }{
		"aborts": {`#include <stdio.h>
#include <stdlib.h>
void *GetPjrtApi(void) { fprintf(stderr, "no such chip\n"); abort(); }`, "no such chip"},
		"exits":   {"#include <stdlib.h>\nvoid *GetPjrtApi(void) { exit(0); }", "the plugin ended its process"},
		"nothing": {"void *GetPjrtApi(void) { return 0; }", "GetPjrtApi"},
	} {
		source, library := filepath.Join(s.dir, name+".c"), filepath.Join(s.dir, name+".so")
		if err := os.WriteFile(source, []byte(c.code), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command("cc", "-shared", "-fPIC", "-o", library, source).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		found, code := s.examined(t, "doctor --model demo --run-dir run --listen 127.0.0.1:PORT --http 127.0.0.1:0 --plugin "+library)
		if f := found["plugin/load"]; code != 1 || f.State != doctor.Fail || !strings.Contains(f.Found, c.found) || len(f.Commands) == 0 {
			t.Errorf("%s: got exit code %d and %+v", name, code, f)
		}
		if f := found["directories/run-dir"]; f.State != doctor.OK {
			t.Errorf("%s: got %+v, want the examination to go on", name, f)
		}
	}
}

func TestDoctorKnowsTheServerThatRuns(t *testing.T) {
	s := newDemoScene(t)
	server(t, s)
	found, code := s.examined(t, "doctor --model demo --executor sim --run-dir run --listen 127.0.0.1:PORT --http 127.0.0.1:0 --frontends 2")
	if code != 0 {
		t.Errorf("got exit code %d from %+v", code, found)
	}
	for check, want := range map[string]string{
		"configuration/server": "runs already, process ", "ports/listen": "is held by the server that runs", "limits/open files": "of the server, process ",
		"pages/tables": "in memory already: ", "memory/machine memory": "beside the server that runs",
	} {
		if f := found[check]; f.State != doctor.OK || !strings.Contains(f.Found, want) {
			t.Errorf("%s: got %+v, want %q", check, f, want)
		}
	}
	// Another server on the same address, which does not know of this one.
	found, code = s.examined(t, "doctor --model demo --executor sim --run-dir other --listen 127.0.0.1:PORT --http 127.0.0.1:0")
	f := found["ports/listen"]
	if code != 1 || f.State != doctor.Fail || !strings.Contains(f.Found, "is held by process ") || len(f.Commands) != 1 {
		t.Errorf("got exit code %d and %+v", code, f)
	}
	for _, name := range []string{"rankd", "sh"} { // its own name, or that of a test binary
		if strings.Contains(f.Found, fmt.Sprintf("(%s", name)) {
			return
		}
	}
	t.Errorf("got %+v, want the name of the process", f)
}
