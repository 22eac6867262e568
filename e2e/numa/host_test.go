package numa

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"rankd/internal/testutil"
	"rankd/model/demo"
)

func TestMain(m *testing.M) {
	if os.Getpid() == 1 {
		beGuest(m)
	}
	testutil.Main(m)
}

// bootLimit bounds the whole run of the guest.
const bootLimit = 15 * time.Minute

// guestTest finds the tests that must have passed there.
var guestTest = regexp.MustCompile(`(?m)^func (TestGuest\w+)\(`)

//go:embed guest_test.go
var guestTests string

// TestOnAMachineWithTwoNodes boots the guest.
func TestOnAMachineWithTwoNodes(t *testing.T) {
	kernel := os.Getenv("RANKD_NUMA_KERNEL")
	if kernel == "" {
		t.Skip("boots an emulated machine: run make numa")
	}
	qemu, err := exec.LookPath("qemu-system-x86_64")
	if err != nil {
		t.Skip("qemu-system-x86_64 is missing: apt-get install --no-install-recommends qemu-system-x86")
	}
	run := "^TestGuest"
	if some := os.Getenv("RANKD_NUMA_RUN"); some != "" {
		run = some
	}
	wanted, err := regexp.Compile(run)
	if err != nil {
		t.Fatal(err)
	}
	binary := testutil.Binary(t)
	dir := t.TempDir()
	bundle := filepath.Join(dir, "demo")
	// Some 25 MiB of tables, so that their huge pages can be counted.
	if _, err := demo.Create(t.Context(), demo.Options{Dir: bundle, Seed: 1, MaxVocab: 3_000, Small: true, MaxBatch: 64}); err != nil {
		t.Fatal(err)
	}
	initrd := filepath.Join(dir, "initrd")
	pack(t, initrd, binary, bundle)

	ctx, cancel := context.WithTimeout(t.Context(), bootLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, qemu,
		"-machine", "q35,accel=tcg", "-cpu", "max", "-smp", "4,sockets=2,cores=2", "-m", "2048", "-nographic", "-no-reboot", "-net", "none",
		"-object", "memory-backend-ram,id=m0,size=1024M", "-object", "memory-backend-ram,id=m1,size=1024M",
		"-numa", "node,nodeid=0,cpus=0-1,memdev=m0", "-numa", "node,nodeid=1,cpus=2-3,memdev=m1", "-numa", "dist,src=0,dst=1,val=21",
		"-kernel", kernel, "-initrd", initrd,
		"-append", "console=ttyS0 quiet panic=-1 rdinit=/init -- -test.v -test.timeout=14m -test.run="+run)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	began := time.Now()
	err = cmd.Run()
	said := strings.ReplaceAll(out.String(), "\r", "")
	for _, m := range guestTest.FindAllStringSubmatch(guestTests, -1) {
		if wanted.MatchString(m[1]) && !strings.Contains(said, "--- PASS: "+m[1]+" ") {
			t.Errorf("guest: %s has not passed", m[1])
		}
	}
	if err != nil || !strings.Contains(said, "\nPASS\n") || t.Failed() {
		t.Fatalf("guest: got %v, %v, after %v, want all of its tests passed:\n%s", err, ctx.Err(), time.Since(began).Round(time.Second), said)
	}
	t.Logf("guest:\n%s", said)
}

// pack writes the guest's whole file system as an archive that the kernel unpacks: this binary as /init, the command with the
// libraries that it is linked with, and a bundle.
func pack(t *testing.T, path, binary, bundle string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	a := &archive{t: t, made: map[string]bool{}}
	for _, dir := range []string{"proc", "sys", "dev", "dev/shm", "tmp", "run", "huge"} {
		a.dir(dir)
	}
	a.add("init", self)
	a.add("rankd", binary)
	for _, program := range []string{self, binary} {
		for _, library := range libraries(t, program) {
			a.add(strings.TrimPrefix(library, "/"), library)
		}
	}
	err = filepath.WalkDir(bundle, func(file string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		name, err := filepath.Rel(bundle, file)
		a.add(filepath.Join("demo", name), file)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	a.entry("TRAILER!!!", 0, nil)
	if err := os.WriteFile(path, a.bytes.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}

var libraryPath = regexp.MustCompile(`(?m)(/\S+\.so\S*)`)

// libraries are what a program is linked with; none if it is linked with nothing.
func libraries(t *testing.T, program string) []string {
	t.Helper()
	out, err := exec.Command("ldd", program).CombinedOutput()
	if err != nil && !strings.Contains(string(out), "not a dynamic executable") {
		t.Fatalf("find libraries of %s: %v\n%s", program, err, out)
	}
	return libraryPath.FindAllString(string(out), -1)
}

// archive is a cpio archive in the form "newc".
type archive struct {
	t     *testing.T
	bytes bytes.Buffer
	made  map[string]bool
	inode int
}

// dir makes a directory with those above it.
func (a *archive) dir(name string) {
	if name == "." || a.made[name] {
		return
	}
	a.dir(filepath.Dir(name))
	a.made[name] = true
	a.entry(name, 0o040755, nil)
}

func (a *archive) add(name, from string) {
	a.t.Helper()
	if a.made[name] {
		return
	}
	a.made[name] = true
	text, err := os.ReadFile(from)
	if err != nil {
		a.t.Fatal(err)
	}
	a.dir(filepath.Dir(name))
	a.entry(name, 0o100755, text)
}

func (a *archive) entry(name string, mode int, text []byte) {
	a.inode++
	fmt.Fprintf(&a.bytes, "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x", a.inode, mode, 0, 0, 1, 0, len(text), 0, 0, 0, 0, len(name)+1, 0)
	a.bytes.WriteString(name + "\x00")
	a.pad()
	a.bytes.Write(text)
	a.pad()
}

func (a *archive) pad() {
	for a.bytes.Len()%4 != 0 {
		a.bytes.WriteByte(0)
	}
}
