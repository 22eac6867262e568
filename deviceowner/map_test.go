package deviceowner

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
)

// mapping is a device that may prepare host memory for transfers.
type mapping struct {
	instant
	mapped bool
	err    error
	got    []byte
}

func (m *mapping) MapHost(mem []byte) (bool, error) {
	m.got = mem
	return m.mapped, m.err
}

func TestSlabsAreMappedWhereTheDeviceCan(t *testing.T) {
	slabs := make([]byte, 4096)
	for name, c := range map[string]struct {
		device *mapping
		want   string
	}{
		"can":      {&mapping{mapped: true}, `level=INFO msg="slabs mapped for the device" bytes=4096`},
		"can not":  {&mapping{}, ""},
		"does not": {&mapping{err: errors.New("no room")}, `level=WARN msg="slabs are not mapped for the device: rows are copied on their way to it" bytes=4096 error="no room"`},
	} {
		var log bytes.Buffer
		mapSlabs(c.device, slabs, slog.New(slog.NewTextHandler(&log, nil)))
		if len(c.device.got) != len(slabs) || &c.device.got[0] != &slabs[0] {
			t.Errorf("%s: the device was shown %d bytes, want the slabs", name, len(c.device.got))
		}
		if got := log.String(); c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: got log %q, want %q", name, got, c.want)
		}
	}
	mapSlabs(&instant{}, slabs, slog.New(slog.DiscardHandler)) // a device without any such thing
}
