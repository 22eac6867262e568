package tables

import (
	"encoding/hex"
	"errors"
	"flag"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"unsafe"

	"rankd/internal/dtype"
	"rankd/internal/hugemem"
	"rankd/internal/testutil"
)

var update = flag.Bool("update", false, "rewrite testdata")

func TestOffsets(t *testing.T) {
	for _, tt := range []struct {
		field     string
		got, want uintptr
	}{
		{"header.magic", unsafe.Offsetof(header{}.magic), 0x00},
		{"header.checksum", offChecksum, 0x08},
		{"header.version", offVersion, 0x0c},
		{"header.fileBytes", offFileBytes, 0x10},
		{"header.zeroOffset", offZeroOffset, 0x18},
		{"header.dataOffset", offDataOffset, 0x20},
		{"header.tableCount", offTableCount, 0x28},
		{"header.namesBytes", offNamesBytes, 0x2c},
		{"header.digest", offDigest, 0x30},
		{"header", uintptr(headerBytes), 0x80},
		{"descriptor.offset", offTableOffset, 0x00},
		{"descriptor.rows", offRows, 0x08},
		{"descriptor.stride", offStride, 0x10},
		{"descriptor.dim", offDim, 0x14},
		{"descriptor.dtype", offDType, 0x18},
		{"descriptor.nameBytes", offNameBytes, 0x1c},
		{"descriptor", uintptr(descriptorBytes), 0x80},
	} {
		if tt.got != tt.want {
			t.Errorf("%s: got %#x, want %#x", tt.field, tt.got, tt.want)
		}
	}
}

// fixedLayout is a layout made by hand.
func fixedLayout() layout {
	l := layout{
		fileBytes: 2 << 20, zeroOffset: 0x1c0, dataOffset: 0x200,
		tables: []tableLayout{
			{"user", 0x200, 1000, 64, 8, dtype.Float32},
			{"item", 0x200 + 64000, 3, 64, 16, dtype.Float32},
		},
	}
	for i := range l.digest {
		l.digest[i] = byte(i)
	}
	return l
}

func encoded(l layout) []byte {
	mem := make([]byte, l.fileBytes)
	copy(mem, l.encode())
	publish(mem)
	return mem
}

func TestHeaderBytesAreAsRecorded(t *testing.T) {
	l := fixedLayout()
	got := hex.Dump(encoded(l)[:l.zeroOffset])
	path := filepath.Join("testdata", "header.golden")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("header changed; raise the version and run with -update:\n%s\nwant:\n%s", got, want)
	}
}

func TestHeaderRoundTrip(t *testing.T) {
	want := fixedLayout()
	got, err := decode(encoded(want), want.fileBytes)
	if err != nil {
		t.Fatal(err)
	}
	if err := got.matches(want); err != nil || got.fileBytes != want.fileBytes {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}

func TestDamagedHeaderIsRefused(t *testing.T) {
	reseal := func(b []byte) { // a header that was written wrongly, not damaged later
		l := fixedLayout()
		le.PutUint32(b[offChecksum:], crc32.Checksum(b[offVersion:l.namesOffset()+8], castagnoli))
	}
	table := func(i int64, off uintptr) int64 { return headerBytes + i*descriptorBytes + int64(off) }
	for _, tt := range []struct {
		name   string
		damage func(b []byte) []byte
		want   error
	}{
		{"empty", func([]byte) []byte { return nil }, ErrSize},
		{"shorter than a header", func(b []byte) []byte { return b[:100] }, ErrSize},
		{"cut off", func(b []byte) []byte { return b[:1<<20] }, ErrSize},
		{"longer", func(b []byte) []byte { return append(b, 0) }, ErrSize},
		{"no magic", func(b []byte) []byte { b[0] = 0; return b }, ErrNotReady},
		{"other version", func(b []byte) []byte { b[offVersion]++; return b }, ErrVersion},
		{"flipped bit in the digest", func(b []byte) []byte { b[offDigest] ^= 1; return b }, ErrChecksum},
		{"flipped bit in a name", func(b []byte) []byte { l := fixedLayout(); b[l.namesOffset()] ^= 1; return b }, ErrChecksum},
		{"more tables than the file holds", func(b []byte) []byte { le.PutUint32(b[offTableCount:], 1<<31); return b }, ErrGeometry},
		{"names longer than the file", func(b []byte) []byte { le.PutUint32(b[offNamesBytes:], 1<<31); return b }, ErrGeometry},
		{"table beyond the end", func(b []byte) []byte { le.PutUint64(b[table(1, offTableOffset):], 2<<20); reseal(b); return b }, ErrGeometry},
		{"offset wraps", func(b []byte) []byte { le.PutUint64(b[table(1, offTableOffset):], 1<<63); reseal(b); return b }, ErrGeometry},
		{"rows wrap", func(b []byte) []byte { le.PutUint64(b[table(0, offRows):], 1<<58); reseal(b); return b }, ErrGeometry},
		{"no stride", func(b []byte) []byte { le.PutUint32(b[table(0, offStride):], 0); reseal(b); return b }, ErrGeometry},
		{"dim beyond stride", func(b []byte) []byte { le.PutUint32(b[table(0, offDim):], 17); reseal(b); return b }, ErrGeometry},
		{"long name", func(b []byte) []byte { le.PutUint32(b[table(0, offNameBytes):], 9); reseal(b); return b }, ErrGeometry},
		{"zero row in the data", func(b []byte) []byte { le.PutUint64(b[offZeroOffset:], 0x200); reseal(b); return b }, ErrGeometry},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := tt.damage(encoded(fixedLayout()))
			if _, err := decode(b, int64(len(b))); !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
		})
	}
}

// Every single flipped bit of a header is noticed.
func TestEveryFlippedBitIsNoticed(t *testing.T) {
	l := fixedLayout()
	b := encoded(l)
	for i := range int(l.namesOffset()+8) * 8 {
		b[i/8] ^= 1 << (i % 8)
		if _, err := decode(b, l.fileBytes); err == nil {
			t.Errorf("bit %d of byte %#x: got no error", i%8, i/8)
		}
		b[i/8] ^= 1 << (i % 8)
	}
}

func FuzzDecode(f *testing.F) {
	l := fixedLayout()
	f.Add(encoded(l)[:0x400], int64(0x400), true)
	f.Fuzz(func(t *testing.T, b []byte, size int64, sealed bool) {
		if len(b) >= int(headerBytes) {
			b = append(make([]byte, 0, len(b)+8), b...)
			publish(b)
			le.PutUint32(b[offVersion:], version)
			n := headerBytes + int64(le.Uint32(b[offTableCount:]))*descriptorBytes + int64(le.Uint32(b[offNamesBytes:]))
			if sealed && n <= int64(len(b)) {
				le.PutUint32(b[offChecksum:], crc32.Checksum(b[offVersion:n], castagnoli))
			}
		}
		got, err := decode(b, size)
		if err != nil {
			return
		}
		for _, tl := range got.tables {
			if tl.offset < got.dataOffset || tl.offset+tl.bytes() > size {
				t.Errorf("I4: accepted a table outside the file: %+v", tl)
			}
		}
	})
}

// Attach on files with random damage ends in an error or in a set that can be used.
func TestAttachSurvivesRandomDamage(t *testing.T) {
	b := makeBundle(t, t4[:2])
	seg := mustLoad(t, b, Options{Instance: testutil.Instance(t), Dir: shmDir(t), Want: hugemem.Small})
	whole, err := os.ReadFile(seg.Path)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	path := filepath.Join(t.TempDir(), "damaged")
	for range 200 {
		n := len(whole)
		if rng.IntN(4) == 0 {
			n = rng.IntN(n)
		}
		damaged := append([]byte(nil), whole[:n]...)
		for range rng.IntN(3) {
			if n > 0 {
				damaged[rng.IntN(min(n, 600))] ^= byte(1 + rng.IntN(255))
			}
		}
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := AttachPath(path, b.Manifest)
		if err != nil {
			continue
		}
		if got := float(lookup(t, s, []Bags{{Values: ids64(7), Width: 8, Hot: 1, Step: 1}, {Values: ids64(8), Width: 8, Hot: 1, Step: 1}}, 1), 0); got != 7 {
			t.Errorf("row 7: got %v", got)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
