package procmem

import (
	"os"
	"reflect"
	"strings"
	"testing"
)

const sample = `7f0000000000-7f0000200000 r--s 00000000 00:19 42                         /dev/shm/with space (deleted)
Size:               2048 kB
KernelPageSize:        4 kB
Rss:                2048 kB
Pss:                 512 kB
Pss_Dirty:             0 kB
ShmemPmdMapped:     2048 kB
Shared_Hugetlb:        4 kB
Private_Hugetlb:       8 kB
VmFlags: rd sh mr mw me ms sd
c000000000-c000400000 rw-p 00000000 00:00 0
Size:               4096 kB
Rss:                  64 kB
Pss:                  64 kB
`

func TestParseReadsEveryFigureInBytes(t *testing.T) {
	got, err := Parse(strings.NewReader(sample))
	if err != nil {
		t.Fatal(err)
	}
	want := []Mapping{
		{
			Lo: 0x7f0000000000, Hi: 0x7f0000200000, File: File{"00:19", 42}, Path: "/dev/shm/with space (deleted)",
			Size: 2 << 20, RSS: 2 << 20, PSS: 512 << 10, Huge: 2 << 20, Hugetlb: 12 << 10,
		},
		{Lo: 0xc000000000, Hi: 0xc000400000, Size: 4 << 20, RSS: 64 << 10, PSS: 64 << 10},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestParseRefusesOtherText(t *testing.T) {
	for _, text := range []string{"Rss: 4 kB\n", "1-2 r--p 0 0:0 0\nRss: x kB\n", "1-2 r--p 0 0:0 0\nRss:\n"} {
		if _, err := Parse(strings.NewReader(text)); err == nil {
			t.Errorf("parse %q: got no error", text)
		}
	}
}

func TestReadFindsThisProcess(t *testing.T) {
	list, err := Read("self")
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range list {
		if m.Path == self && m.PSS > 0 {
			return
		}
	}
	t.Errorf("no mapping of %s with pages in %d mappings", self, len(list))
}
