package execache

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Key is everything that an image depends on. It is comparable. An image that was compiled where there is no device depends on
// no processor, client and number of threads, and what the plugin's file says of its version says all: Version and Host are
// empty then, and Devices is not.
type Key struct {
	Plugin   string `json:"plugin"`            // digest of the plugin's file
	API      string `json:"api"`               // version of the PJRT C API that the plugin speaks
	Platform string `json:"platform"`          // as the plugin names it
	Version  string `json:"version"`           // of the platform, as the plugin states it
	Device   string `json:"device"`            // kind of device
	Host     string `json:"host"`              // digest of what this machine's processor can do
	Options  string `json:"options"`           // digest of compile options, client options, number of threads and environment
	Program  string `json:"program"`           // digest of the program's text
	Bucket   int    `json:"bucket"`            // rows
	Devices  int    `json:"devices,omitempty"` // of the topology that it was compiled for without a device; else 0
}

const (
	magic         = "rankdexe"
	formatVersion = 1
	fixedBytes    = 56
	maxKeyBytes   = 64 << 10
	maxImageBytes = 1 << 30
)

// ErrUnusable is wrapped by errors about entries that must not be trusted.
var ErrUnusable = errors.New("entry is unusable")

// hash names the key.
func (k Key) hash() string {
	text, _ := json.Marshal(k) // strings and a number always have a form
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}

// appendHeader appends what stands before the image.
func appendHeader(b []byte, k Key, image []byte) []byte {
	key, _ := json.Marshal(k)
	start := len(b)
	b = append(b, magic...)
	b = binary.LittleEndian.AppendUint32(b, formatVersion)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(key)))
	b = binary.LittleEndian.AppendUint64(b, uint64(len(image)))
	sum := sha256.Sum256(image)
	b = append(b, sum[:]...)
	b = append(b, key...)
	sum = sha256.Sum256(b[start:])
	return append(b, sum[:]...)
}

// decode checks an entry and returns its parts. The image aliases b.
func decode(b []byte) (Key, []byte, error) {
	bad := func(format string, args ...any) (Key, []byte, error) {
		return Key{}, nil, fmt.Errorf("%w: "+format, append([]any{ErrUnusable}, args...)...)
	}
	if len(b) < fixedBytes || string(b[:8]) != magic {
		return bad("is no entry")
	}
	if v := binary.LittleEndian.Uint32(b[8:]); v != formatVersion {
		return bad("got format version %d, want %d", v, formatVersion)
	}
	keyBytes, imageBytes := binary.LittleEndian.Uint32(b[12:]), binary.LittleEndian.Uint64(b[16:])
	if keyBytes > maxKeyBytes || imageBytes > maxImageBytes {
		return bad("got a key of %d and an image of %d bytes", keyBytes, imageBytes)
	}
	end := fixedBytes + int(keyBytes)
	if got, want := len(b), end+sha256.Size+int(imageBytes); got != want {
		return bad("got %d bytes, want %d", got, want)
	}
	if sum := sha256.Sum256(b[:end]); !bytes.Equal(sum[:], b[end:end+sha256.Size]) {
		return bad("header is damaged")
	}
	image := b[end+sha256.Size:]
	if sum := sha256.Sum256(image); !bytes.Equal(sum[:], b[24:fixedBytes]) {
		return bad("image is damaged")
	}
	var k Key
	d := json.NewDecoder(bytes.NewReader(b[fixedBytes:end]))
	d.DisallowUnknownFields()
	if err := d.Decode(&k); err != nil {
		return bad("key: %v", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return bad("key: got something behind it")
	}
	return k, image, nil
}
