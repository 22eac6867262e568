package systemd

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"rankd/client"
	"rankd/internal/dtype"
	"rankd/internal/testutil"
	"rankd/model"
	"rankd/model/demo"
	"rankd/supervisor"
)

const modelDir = "/var/lib/rankd/models/test"

// service is rankd.service, or an instance of rankd@.service, in a machine.
type service struct {
	m            *machine
	unit         string
	file         string // its configuration
	listen, http string // addresses, shared with this machine's loopback
	bundle       *model.Bundle
}

// installed boots a machine with the package and a model, and installs the former.
func installed(t *testing.T) *service {
	t.Helper()
	needs(t)
	deb := pack(t)
	s := &service{unit: "rankd.service", file: "/etc/rankd/rankd.yaml", listen: freeAddress(t), http: freeAddress(t)}
	s.m = boot(t, func(root string) {
		for _, path := range []string{"etc/rankd", "var/lib/rankd", "usr/bin/rankd"} { // of this machine
			if err := os.RemoveAll(filepath.Join(root, path)); err != nil {
				t.Fatal(err)
			}
		}
		copyFile(t, deb, filepath.Join(root, "rankd.deb"))
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, modelDir)), 0o755); err != nil {
			t.Fatal(err)
		}
		b, err := demo.CreateTest(t.Context(), demo.TestOptions{Dir: filepath.Join(root, modelDir), Golden: 8, Tables: []demo.TestTable{{Hotness: 2, Rows: 700_000}, {Hotness: 1}}}) // eleven pieces to load
		if err != nil {
			t.Fatal(err)
		}
		s.bundle = b
	})
	s.m.run("dpkg", "--install", "/rankd.deb")
	s.m.run("chmod", "-R", "a+rX", "/var/lib/rankd/models")
	s.configure("")
	return s
}

// pack is the package that make deb has built.
func pack(t *testing.T) string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(os.Getenv("RANKD_DEB"), "*.deb"))
	if err != nil || len(list) != 1 {
		t.Fatalf("RANKD_DEB=%s: got %v, %v, want a directory with one package: make deb builds it", os.Getenv("RANKD_DEB"), list, err)
	}
	return list[0]
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, text, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// configure writes the file of the service: the simulated accelerator and more lines.
func (s *service) configure(more string) {
	s.m.t.Helper()
	s.m.write(s.file, fmt.Sprintf("model: %s\nlisten: %s\nhttp: %s\nexecutor: sim\nfrontends: 2\n%s\n", modelDir, s.listen, s.http, more))
}

// start starts the service, which returns when it is ready; it is stopped at the end of the test.
func (s *service) start(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		_, _ = s.m.try("systemctl", "stop", s.unit)
		_, _ = s.m.try("systemctl", "reset-failed", s.unit)
	})
	s.m.run("systemctl", "start", s.unit)
}

// status asks the server itself.
func (s *service) status() (*supervisor.Status, error) {
	r, err := http.Get("http://" + s.http + "/statusz?format=json")
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	st := &supervisor.Status{}
	return st, json.Unmarshal(text, st)
}

// awaitReady waits until the server serves with all its processes.
func (s *service) awaitReady(t *testing.T) *supervisor.Status {
	t.Helper()
	var st *supervisor.Status
	testutil.Eventually(t, limit, "the server to serve", func() bool {
		var err error
		if st, err = s.status(); err != nil || !st.Ready {
			return false
		}
		for _, p := range st.Processes {
			if p.State != "ready" {
				return false
			}
		}
		return true
	})
	return st
}

// pidOf is a process of the server as this machine sees it: the status page has the pids of the container.
func (s *service) pidOf(t *testing.T, role string, index int) int {
	t.Helper()
	for _, p := range s.awaitReady(t).Processes {
		if p.Role == role && p.Index == index {
			return p.PID
		}
	}
	t.Fatalf("the server has no %s %d", role, index)
	return 0
}

// signal sends a signal to a process of the machine.
func (s *service) signal(name string, pid int) {
	s.m.t.Helper()
	s.m.run("kill", "-"+name, strconv.Itoa(pid))
}

// forget gives the memory of the tables back, so that the next start loads them.
func (s *service) forget() { s.m.run("systemctl", "stop", "var-lib-rankd-tables.mount") }

// dial makes a client.
func (s *service) dial(t *testing.T) *client.Client {
	t.Helper()
	c, err := client.Dial(s.listen, client.Options{Connections: 4, Timeout: limit})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// score sends one row.
func (s *service) score(t *testing.T, c *client.Client) error {
	var inputs []client.Tensor
	for i := range s.bundle.Manifest.Tables {
		table := &s.bundle.Manifest.Tables[i]
		inputs = append(inputs, client.Tensor{Name: table.Name, DType: dtype.Int64, Shape: []int64{1, int64(table.Hotness)}, Data: make([]byte, 8*table.Hotness)})
	}
	for _, d := range s.bundle.Manifest.Dense {
		inputs = append(inputs, client.Tensor{Name: d.Name, DType: dtype.Float32, Shape: []int64{1, int64(d.Width)}, Data: make([]byte, 4*d.Width)})
	}
	_, err := c.Score(t.Context(), client.Model{Name: s.bundle.Manifest.Name}, inputs)
	return err
}

// faulty lets the unit execute a build with fault hooks.
func (s *service) faulty(t *testing.T, faults string) {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "rankd")
	if out, err := exec.Command("go", "build", "-tags", "faults", "-o", binary, "rankd/cmd/rankd").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	copyFile(t, binary, filepath.Join(s.m.root, "usr/local/bin/rankd-faults"))
	s.m.dropIn(t, s.unit, "[Service]\nExecStart=\nExecStart=/usr/local/bin/rankd-faults serve\nEnvironment=RANKD_FAULTS="+faults+"\nTimeoutStartSec=4\nTimeoutStopSec=5\n")
}

func elapsed(began time.Time) time.Duration { return time.Since(began).Round(10 * time.Millisecond) }
