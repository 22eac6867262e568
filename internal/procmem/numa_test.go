package procmem

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

const numaSample = `558a75c00000 default file=/usr/bin/rankd mapped=12 mapmax=3 active=10 N0=10 N1=2 kernelpagesize_kB=4
7f1000000000 interleave:0-1 file=/dev/shm/rankd.a.tables.0123 huge dirty=4 mapmax=2 N0=2 N1=2 kernelpagesize_kB=2048
7f2000000000 prefer:1 file=/dev/shm/rankd.b\040c mapped=512 N1=512 kernelpagesize_kB=4
7ffc01000000 default stack anon=3 dirty=3 N0=3 kernelpagesize_kB=4
7ffc02000000 default
`

func TestParseNUMAReadsBytesByNode(t *testing.T) {
	got, err := ParseNUMA(strings.NewReader(numaSample))
	if err != nil {
		t.Fatal(err)
	}
	want := []NUMAMapping{
		{0x558a75c00000, "default", "/usr/bin/rankd", map[int]int64{0: 40 << 10, 1: 8 << 10}},
		{0x7f1000000000, "interleave:0-1", "/dev/shm/rankd.a.tables.0123", map[int]int64{0: 4 << 20, 1: 4 << 20}},
		{0x7f2000000000, "prefer:1", `/dev/shm/rankd.b\040c`, map[int]int64{1: 2 << 20}},
		{0x7ffc01000000, "default", "", map[int]int64{0: 12 << 10}},
		{0x7ffc02000000, "default", "", nil},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if sum := SumNUMA(got, 0x7f1000000000, 0x7f2000000001); !reflect.DeepEqual(sum, map[int]int64{0: 4 << 20, 1: 6 << 20}) {
		t.Errorf("sum: got %v", sum)
	}
}

func TestParseNUMARefusesOtherText(t *testing.T) {
	for _, text := range []string{
		"7f00\n", "\n", "xyz default\n", "7f00 default N0=x\n", "7f00 default N0=-1\n", "7f00 default N99999=1\n",
		"7f00 default N0=1 kernelpagesize_kB=4k\n", "7f00 default N0=999999999999\n", "Rss: 4 kB\n",
	} {
		if got, err := ParseNUMA(strings.NewReader(text)); err == nil {
			t.Errorf("parse %q: got %+v, want an error", text, got)
		}
	}
}

// TestNodesOfAFile maps a file of this process and finds all of it.
func TestNodesOfAFile(t *testing.T) {
	fd, err := unix.MemfdCreate("rankd-test-numa", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	const size = 1 << 20
	if err := unix.Ftruncate(fd, size); err != nil {
		t.Fatal(err)
	}
	mem, err := unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Munmap(mem); err != nil {
			t.Error(err)
		}
	}()
	info, err := os.Stat(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		t.Fatal(err)
	}
	file := FileOf(info)
	nodes, err := NodesOf("self", file)
	if errors.Is(err, ErrNoNUMA) {
		t.Skip("no NUMA in this kernel")
	}
	total := int64(0)
	for _, n := range nodes {
		total += n
	}
	if err != nil || total != size {
		t.Errorf("got %v, %v, want %d bytes in all", nodes, err, size)
	}
	other := File{Device: "00:00", Inode: file.Inode} // of another filesystem
	if nodes, err := NodesOf("self", other, File{}); err != nil || len(nodes) != 0 {
		t.Errorf("another file: got %v, %v, want nothing", nodes, err)
	}
	if _, err := ReadNUMA("999999999"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no such process: got %v, want %v", err, os.ErrNotExist)
	}
}

func FuzzParseNUMA(f *testing.F) {
	for line := range strings.Lines(numaSample) {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, text string) {
		list, err := ParseNUMA(strings.NewReader(text))
		if err != nil {
			return
		}
		for _, m := range list {
			for node, bytes := range m.Nodes {
				if node < 0 || bytes < 0 {
					t.Fatalf("%q: got %d bytes on node %d", text, bytes, node)
				}
			}
		}
	})
}
