package systemd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rankd/internal/testutil"
)

func TestMain(m *testing.M) { testutil.Main(m) }

// poweroff is what systemd takes as the order to end: SIGRTMIN+4.
const poweroff = unix.Signal(34 + 4)

const (
	bootLimit = 2 * time.Minute
	limit     = time.Minute
)

// machine is a booted container.
type machine struct {
	t       *testing.T
	base    string // tmpfs with the overlay
	root    string // the container's root, seen from here
	cmd     *exec.Cmd
	console bytes.Buffer
	exited  chan struct{}
}

// needs skips tests that cannot run here.
func needs(t *testing.T) {
	t.Helper()
	switch {
	case os.Getenv("RANKD_SYSTEMD") == "":
		t.Skip("boots a container: make systemd runs it")
	case os.Geteuid() != 0:
		t.Skip("needs root")
	}
	for _, tool := range []string{"systemd-nspawn", "nsenter"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Fatalf("%s is missing: apt-get install systemd-container util-linux", tool)
		}
	}
}

// boot prepares an overlay, lets prepare change it, and boots it.
func boot(t *testing.T, prepare func(root string)) *machine {
	t.Helper()
	needs(t)
	m := &machine{t: t, base: t.TempDir()}
	m.mount("tmpfs", m.base, "tmpfs", "mode=755,size=4g")
	m.root = filepath.Join(m.base, "root")
	for _, dir := range []string{"upper", "work", "root"} {
		m.mkdir(filepath.Join(m.base, dir))
	}
	m.mount("overlay", m.root, "overlay", fmt.Sprintf("lowerdir=/,upperdir=%s/upper,workdir=%s/work", m.base, m.base))
	m.strip()
	prepare(m.root)
	m.start()
	return m
}

func (m *machine) mkdir(dir string) {
	m.t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) mount(what, where, kind, options string) {
	m.t.Helper()
	if err := unix.Mount(what, where, kind, 0, options); err != nil {
		m.t.Fatalf("mount %s: %v", where, err)
	}
	m.t.Cleanup(func() {
		if err := unix.Unmount(where, unix.MNT_DETACH); err != nil {
			m.t.Errorf("unmount %s: %v", where, err)
		}
	})
}

// strip takes away what this machine would start at boot, and its identity.
func (m *machine) strip() {
	m.t.Helper()
	units := filepath.Join(m.root, "etc/systemd/system")
	wants, _ := filepath.Glob(filepath.Join(units, "*.wants"))
	for _, dir := range wants {
		if err := os.RemoveAll(dir); err != nil {
			m.t.Fatal(err)
		}
	}
	m.mkdir(units)
	for _, unit := range []string{
		"getty.target", "console-getty.service", "systemd-networkd.service", "systemd-resolved.service", "systemd-timesyncd.service", "systemd-udevd.service",
		"systemd-udev-trigger.service", "apt-daily.timer", "apt-daily-upgrade.timer", "man-db.timer", "dpkg-db-backup.timer", "e2scrub_all.timer", "fstrim.timer",
		"prometheus.service", "prometheus-node-exporter.service", "systemd-firstboot.service",
	} {
		path := filepath.Join(units, unit)
		_ = os.Remove(path)
		if err := os.Symlink("/dev/null", path); err != nil {
			m.t.Fatal(err)
		}
	}
	for path, text := range map[string]string{"etc/machine-id": "uninitialized\n", "etc/fstab": "", "etc/hostname": "rankd-test\n"} {
		path = filepath.Join(m.root, path)
		_ = os.Remove(path)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			m.t.Fatal(err)
		}
	}
	m.mkdir(filepath.Join(m.root, "var/log/journal"))
}

// start boots the container and waits until its systemd has nothing left to do.
func (m *machine) start() {
	m.t.Helper()
	m.cmd = exec.Command("systemd-nspawn", "--quiet", "--directory="+m.root, "--boot", "--register=no", "--keep-unit", "--link-journal=no", "--console=pipe",
		"--resolv-conf=off", "--timezone=off", "--machine=rankd-test-"+strconv.Itoa(os.Getpid()), "systemd.show_status=yes", "systemd.log_target=journal")
	m.cmd.Stdout, m.cmd.Stderr = &m.console, &m.console
	m.cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	if err := m.cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
	cmd, exited := m.cmd, make(chan struct{})
	m.exited = exited
	go func() {
		defer close(exited)
		_ = cmd.Wait()
	}()
	m.t.Cleanup(m.end)
	m.awaitBoot()
}

// reboot lets the machine end as for a reboot and boots it again from the same overlay, as a manager of containers would.
func (m *machine) reboot() {
	m.t.Helper()
	_, _ = m.try("systemctl", "reboot") // it may end before it has answered
	select {
	case <-m.exited:
	case <-time.After(bootLimit):
		m.t.Fatalf("the machine does not go down; its console:\n%s", tail(m.console.String()))
	}
	const again = 133 // of systemd-nspawn --keep-unit
	if got := m.cmd.ProcessState.ExitCode(); got != again {
		m.t.Fatalf("the machine ended with code %d, want %d; its console:\n%s", got, again, tail(m.console.String()))
	}
	m.start()
}

func (m *machine) awaitBoot() {
	m.t.Helper()
	testutil.Eventually(m.t, bootLimit, "the machine to boot", func() bool {
		select {
		case <-m.exited:
			m.t.Fatalf("the machine has ended; its console:\n%s", tail(m.console.String()))
		default:
		}
		out, _ := m.try("systemctl", "is-system-running")
		state := strings.TrimSpace(out)
		return state == "running" || state == "degraded"
	})
}

// leader is the container's first process, 0 while there is none.
func (m *machine) leader() int {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", m.cmd.Process.Pid, m.cmd.Process.Pid))
	for _, word := range strings.Fields(string(text)) {
		pid, _ := strconv.Atoi(word)
		if name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); strings.TrimSpace(string(name)) == "systemd" {
			return pid
		}
	}
	return 0
}

// try runs a command in the machine.
func (m *machine) try(args ...string) (string, error) {
	pid := m.leader()
	if pid == 0 {
		return "", errors.New("the machine has no first process")
	}
	ctx, cancel := context.WithTimeout(context.Background(), bootLimit)
	defer cancel()
	enter := []string{"--target", strconv.Itoa(pid), "--mount", "--uts", "--ipc", "--pid", "--cgroup", "--root", "--wdns=/", "--"}
	cmd := exec.CommandContext(ctx, "nsenter", append(enter, args...)...)
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/", "LC_ALL=C.UTF-8", "SYSTEMD_PAGER=", "DEBIAN_FRONTEND=noninteractive"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s: %w", strings.Join(args, " "), err)
	}
	return string(out), err
}

// run is try that must succeed.
func (m *machine) run(args ...string) string {
	m.t.Helper()
	out, err := m.try(args...)
	if err != nil {
		m.t.Fatalf("%v\n%s\n%s", err, out, m.journal())
	}
	return out
}

// journal is the end of the servers' log.
func (m *machine) journal() string {
	out, _ := m.try("journalctl", "--no-pager", "-o", "short-monotonic", "-n", "60", "-u", "rankd*")
	return "journal:\n" + out
}

// show reads a property of a unit.
func (m *machine) show(unit, property string) string {
	out, err := m.try("systemctl", "show", "--value", "--property="+property, unit)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(out)
}

// wants waits until a property of a unit has a value.
func (m *machine) wants(unit, property, value string) {
	m.t.Helper()
	got := ""
	deadline := time.Now().Add(limit)
	for ; got != value; time.Sleep(50 * time.Millisecond) { // sleep: systemd tells nobody here when a property changes
		if got = m.show(unit, property); got != value && time.Now().After(deadline) {
			m.t.Fatalf("%s of %s: got %q, want %q\n%s", property, unit, got, value, m.journal())
		}
	}
}

// dropIn changes a unit until the end of the test.
func (m *machine) dropIn(t *testing.T, unit, text string) {
	t.Helper()
	dir := filepath.Join("/etc/systemd/system", unit+".d")
	m.write(filepath.Join(dir, "test.conf"), text)
	m.run("systemctl", "daemon-reload")
	t.Cleanup(func() {
		m.run("rm", "-rf", dir)
		m.run("systemctl", "daemon-reload")
	})
}

// dropInMore adds another file to the drop-ins of a unit, which dropIn takes away with its own.
func (m *machine) dropInMore(t *testing.T, unit, name, text string) {
	t.Helper()
	m.write(filepath.Join("/etc/systemd/system", unit+".d", "z-"+name+".conf"), text)
	m.run("systemctl", "daemon-reload")
}

// write puts a file into the machine.
func (m *machine) write(path, text string) {
	m.t.Helper()
	m.mkdir(filepath.Dir(filepath.Join(m.root, path)))
	if err := os.WriteFile(filepath.Join(m.root, path), []byte(text), 0o644); err != nil {
		m.t.Fatal(err)
	}
}

// end stops the machine, politely at first.
func (m *machine) end() {
	if pid := m.leader(); pid != 0 {
		_ = unix.Kill(pid, poweroff)
	}
	select {
	case <-m.exited:
		return
	case <-time.After(limit):
	}
	_ = unix.Kill(-m.cmd.Process.Pid, unix.SIGKILL)
	<-m.exited
}

func tail(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-40):], "\n")
}
