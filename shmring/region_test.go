package shmring

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"os"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write golden files anew")

func smallGeometry() Geometry {
	return Geometry{Slabs: 4, Capacity: 8, ChunkRows: 4, Strides: []int{64}, ScoreBytes: 4, Frontends: 2, Writers: 2}
}

func format(t testing.TB, g Geometry) *Region {
	t.Helper()
	r, err := Format(HeapMemory(g.Bytes()), g)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestHeaderBytesAreFixed(t *testing.T) {
	g := smallGeometry()
	g.Strides = []int{13376, 128}
	r := format(t, g)
	got := hex.Dump(r.mem[:line])
	const file = "testdata/header.hex"
	if *rewrite {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("header bytes changed: raise the layout version and run with -rewrite\ngot\n%swant\n%s", got, want)
	}
}

func TestLayoutPartsDoNotOverlap(t *testing.T) {
	g := Geometry{Slabs: 6, Capacity: 4096, ChunkRows: 16, Strides: []int{13376, 64}, ScoreBytes: 8, Frontends: 64, Writers: 32}
	l := g.layout()
	parts := []struct {
		name       string
		begin, end int
	}{
		{"control", 0, slabControlBytes},
		{"entries", l.entries, l.entries + 8*g.Capacity},
		{"results", l.results, l.results + 8*g.Capacity},
		{"array 0", l.arrays[0], l.arrays[0] + g.Strides[0]*g.Capacity},
		{"array 1", l.arrays[1], l.arrays[1] + g.Strides[1]*g.Capacity},
		{"scores", l.scores, l.scores + g.ScoreBytes*g.Capacity},
		{"end", l.slabBytes, l.slabBytes},
	}
	for i := 1; i < len(parts); i++ {
		if parts[i].begin < parts[i-1].end {
			t.Errorf("%s begins at %d, before the end %d of %s", parts[i].name, parts[i].begin, parts[i-1].end, parts[i-1].name)
		}
	}
	if got, want := l.frontends+g.Frontends*l.frontendBytes, l.slabs; got > want {
		t.Errorf("frontend blocks end at %d, slabs begin at %d", got, want)
	}
	for a, at := range l.arrays[:2] {
		if at%64 != 0 {
			t.Errorf("array %d is at %d, want a multiple of 64", a, at)
		}
	}
}

func TestSlabMemoryIsThatOfAllRowsAndScores(t *testing.T) {
	g := smallGeometry()
	r := format(t, g)
	want := 0
	for slab := range g.Slabs {
		for _, part := range [][]byte{r.array(slab, 0, 0, g.Capacity), r.scores(slab, 0, g.Capacity)} {
			for i := range part {
				part[i] = 0xA5
			}
			want += len(part)
		}
	}
	mem := r.SlabMemory()
	if got := bytes.Count(mem, []byte{0xA5}); got != want {
		t.Errorf("got %d of the bytes of rows and scores, want %d", got, want)
	}
	if len(mem) != g.Slabs*g.layout().slabBytes {
		t.Errorf("got %d bytes, want %d slabs of %d", len(mem), g.Slabs, g.layout().slabBytes)
	}
}

func TestOpenRefusesWhatFormatDidNotFinish(t *testing.T) {
	g := smallGeometry()
	cases := []struct {
		name   string
		break_ func(mem []byte) []byte
		want   error
	}{
		{"zero", func(m []byte) []byte { clear(m); return m }, ErrMagic},
		{"magic", func(m []byte) []byte { m[0]++; return m }, ErrMagic},
		{"version", func(m []byte) []byte { m[8] = 99; return m }, ErrVersion},
		{"checksum", func(m []byte) []byte { m[12]++; return m }, ErrChecksum},
		{"slabs", func(m []byte) []byte { m[16]++; return m }, ErrChecksum},
		{"arrays", func(m []byte) []byte { m[28] = 200; return m }, ErrChecksum},
		{"short", func(m []byte) []byte { return m[:g.Bytes()-page] }, ErrSize},
		{"header only", func(m []byte) []byte { return m[:100] }, ErrSize},
		{"empty", func([]byte) []byte { return nil }, ErrSize},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := format(t, g)
			if _, err := Open(c.break_(r.mem)); !errors.Is(err, c.want) {
				t.Errorf("open: got %v, want %v", err, c.want)
			}
		})
	}
	if _, err := Open(format(t, g).mem); err != nil {
		t.Errorf("open a sound region: %v", err)
	}
}

func TestGeometryReportsEveryViolation(t *testing.T) {
	err := Geometry{Slabs: 1, Capacity: MaxCapacity + 1, Strides: []int{63}, ScoreBytes: 0, Frontends: 65, Writers: 0}.Validate()
	if err == nil {
		t.Fatal("got no error")
	}
	for _, want := range []string{"slabs", "capacity", "chunk rows", "stride 0: got 63, want a multiple of 64", "score bytes", "frontends", "writers"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error does not name %q:\n%v", want, err)
		}
	}
}

func FuzzOpenNeverPanics(f *testing.F) {
	g := smallGeometry()
	sound := format(f, g)
	f.Add(sound.mem[:line])
	f.Add(bytes.Repeat([]byte{0xff}, line))
	f.Fuzz(func(t *testing.T, head []byte) {
		mem := HeapMemory(g.Bytes())
		copy(mem, sound.mem[:line])
		copy(mem[:line], head)
		r, err := Open(mem)
		if err == nil && r.Geometry().Bytes() > len(mem) {
			t.Fatalf("opened a region of %d bytes in %d", r.Geometry().Bytes(), len(mem))
		}
	})
}
