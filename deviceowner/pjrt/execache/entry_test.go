package execache

import (
	"bytes"
	"encoding/binary"
	"errors"
	"reflect"
	"testing"
)

func testKey() Key {
	return Key{
		Plugin: "p", API: "0.115", Platform: "cpu", Version: "v", Device: "kind", Host: "h", Options: "o", Program: "text", Bucket: 64,
	}
}

func entryBytes(k Key, image []byte) []byte { return append(appendHeader(nil, k, image), image...) }

func TestI1EntryComesBackAsItWas(t *testing.T) {
	image := bytes.Repeat([]byte("image"), 1000)
	k, got, err := decode(entryBytes(testKey(), image))
	if err != nil || k != testKey() || !bytes.Equal(got, image) {
		t.Errorf("got %+v, %d bytes, %v", k, len(got), err)
	}
}

// Any bit that differs, anywhere, and any cut makes an entry unusable.
func TestI1DamagedEntriesAreRefused(t *testing.T) {
	good := entryBytes(testKey(), []byte("some image"))
	for i := range good {
		for bit := range 8 {
			bad := bytes.Clone(good)
			bad[i] ^= 1 << bit
			if _, _, err := decode(bad); !errors.Is(err, ErrUnusable) {
				t.Fatalf("byte %d bit %d: got %v, want ErrUnusable", i, bit, err)
			}
		}
		if _, _, err := decode(good[:i]); !errors.Is(err, ErrUnusable) {
			t.Fatalf("cut at %d: got %v, want ErrUnusable", i, err)
		}
	}
	if _, _, err := decode(append(bytes.Clone(good), 0)); !errors.Is(err, ErrUnusable) {
		t.Errorf("one byte more: got %v, want ErrUnusable", err)
	}
}

func TestEveryFieldOfTheKeyCounts(t *testing.T) {
	seen := map[string]string{testKey().hash(): "none"}
	for i := range reflect.TypeFor[Key]().NumField() {
		k := testKey()
		f, name := reflect.ValueOf(&k).Elem().Field(i), reflect.TypeFor[Key]().Field(i).Name
		switch f.Kind() {
		case reflect.String:
			f.SetString(f.String() + "x")
		case reflect.Int:
			f.SetInt(f.Int() + 1)
		default:
			t.Fatalf("field %s is a %s", name, f.Kind())
		}
		if other, ok := seen[k.hash()]; ok {
			t.Errorf("changing %s gives the hash of changing %s", name, other)
		}
		seen[k.hash()] = name
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(entryBytes(testKey(), []byte("image")))
	f.Add(entryBytes(Key{}, []byte{1}))
	huge := entryBytes(testKey(), []byte("image"))
	binary.LittleEndian.PutUint64(huge[16:], 1<<63)
	f.Add(huge)
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, b []byte) {
		k, image, err := decode(b)
		if err != nil {
			if !errors.Is(err, ErrUnusable) || image != nil {
				t.Errorf("got %d bytes and %v, want ErrUnusable", len(image), err)
			}
			return
		}
		again := entryBytes(k, image)
		k2, image2, err := decode(again)
		if err != nil || k2 != k || !bytes.Equal(image2, image) {
			t.Errorf("round trip: got %+v, %v", k2, err)
		}
	})
}
