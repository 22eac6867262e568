package monitor

import (
	"errors"
	"os"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rankd/internal/testutil"
)

func TestMain(m *testing.M) { testutil.Main(m) }

// shell starts a command that has a child of its own and burns CPU in it for a while.
func shell(t *testing.T, script string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sh", "-c", script)
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL)
		_ = cmd.Wait()
	})
	return cmd
}

func TestMonitorSeesTheWholeTree(t *testing.T) {
	cmd := shell(t, `sh -c 'while :; do :; done' & wait`)
	m, err := Start(cmd.Process.Pid, 10*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	testutil.Eventually(t, 20*time.Second, "100 ms of CPU in the child", func() bool {
		cpu, err := m.CPU()
		return err == nil && cpu >= 0.1
	})
	if _, err := m.Memory("peak"); err != nil {
		t.Error(err)
	}
	testutil.Eventually(t, 20*time.Second, "a sample of two processes and their CPU", func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		last := m.report.Samples[len(m.report.Samples)-1]
		return len(m.report.Samples) > 2 && len(last.Processes) == 2 && last.CPU >= 0.1
	})
	r := m.Stop()
	last := r.Samples[len(r.Samples)-1]
	if last.CPU < 0.1 || last.RSS < 1<<16 || r.PeakMemory() < 1<<16 {
		t.Errorf("got %+v and %d bytes at the peak, want at least 0.1 s and 64 KiB", last, r.PeakMemory())
	}
	for i, s := range r.Samples[1:] {
		if s.CPU < r.Samples[i].CPU {
			t.Errorf("sample %d: got %v CPU seconds after %v", i+1, s.CPU, r.Samples[i].CPU)
		}
	}
}

func TestI1CPUOfAChildThatEndedIsKept(t *testing.T) {
	cmd := shell(t, `sh -c 'i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done'; sleep 100`)
	tree := NewTree(cmd.Process.Pid)
	most := 0.0
	testutil.Eventually(t, 30*time.Second, "the child to work and end", func() bool {
		cpu, err := tree.CPU()
		if err != nil {
			t.Fatal(err)
		}
		if cpu < most {
			t.Fatalf("got %v CPU seconds after %v", cpu, most)
		}
		most = cpu
		list, _ := tree.Read()
		return most > 0.05 && len(list) == 2 && list[1].Name == "sleep 100"
	})
}

func TestProcessThatIsGoneIsAnError(t *testing.T) {
	cmd := exec.Command("true")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	if _, err := Start(cmd.Process.Pid, Interval); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("got %v, want %v", err, os.ErrProcessDone)
	}
	if _, err := ReadMemory(cmd.Process.Pid, "end"); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("got %v, want %v", err, os.ErrProcessDone)
	}
}
