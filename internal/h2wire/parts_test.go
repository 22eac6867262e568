package h2wire

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2/hpack"
)

// The encoder against the decoder of golang.org/x/net, whose table is made smaller and larger in between.
func TestEncoderAgreesWithADecoder(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var got []Field
	d := hpack.NewDecoder(4096, func(f hpack.HeaderField) { got = append(got, Field{f.Name, f.Value}) })
	e := NewEncoder()
	for i := range 3000 {
		if rng.IntN(20) == 0 {
			size := []uint32{0, 100, 300, 4096, 65536}[rng.IntN(5)]
			e.SetLimit(size)
			d.SetAllowedMaxDynamicTableSize(min(size, 4096))
		}
		want := []Field{{":method", "POST"}, {":path", fmt.Sprintf("/s/%d", rng.IntN(6))}, {"te", "trailers"}, {"x", strings.Repeat("v", rng.IntN(200)*rng.IntN(2))}}
		got = nil
		if _, err := d.Write(e.Append(nil, want)); err != nil {
			t.Fatalf("block %d: %v", i, err)
		}
		if err := d.Close(); err != nil {
			t.Fatalf("block %d: %v", i, err)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("block %d: got %v, want %v", i, got, want)
		}
	}
}

// Blocks that the client keeps must stay right while the peer changes its table and other methods add to it.
func TestKeptBlocksAgreeWithADecoder(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	path := ""
	d := hpack.NewDecoder(4096, func(f hpack.HeaderField) {
		if f.Name == ":path" {
			path = f.Value
		}
	})
	c := NewClient(Options{})
	methods := make([]*Method, 30)
	for i := range methods {
		methods[i] = &Method{fmt.Sprintf("/service/%d", i)}
	}
	for i := range 3000 {
		if rng.IntN(50) == 0 {
			size := []uint32{0, 200, 400, 4096}[rng.IntN(4)]
			c.encoder.SetLimit(size)
			d.SetAllowedMaxDynamicTableSize(size)
		}
		m := methods[rng.IntN(1+min(i/10, len(methods)-1))]
		if _, err := d.Write(c.blockOf(m)); err != nil {
			t.Fatalf("block %d: %v", i, err)
		}
		if err := d.Close(); err != nil {
			t.Fatalf("block %d: %v", i, err)
		}
		if path != m.Path {
			t.Fatalf("block %d: got path %q, want %q", i, path, m.Path)
		}
	}
}

func TestTimeoutsAreShortAndNotTooEarly(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "1n", 5: "5n", 99999999: "99999999n", 100 * time.Millisecond: "100000u", 100*time.Millisecond + 1: "100001u",
		200 * time.Second: "200000m", 100000 * time.Second: "100000S", 1e8 * time.Second: "1666667M",
	} {
		if got := string(appendTimeout(nil, d)); got != want {
			t.Errorf("timeout %v: got %q, want %q", d, got, want)
		}
	}
}

func TestUnescapeKeepsWhatIsNoEscape(t *testing.T) {
	for in, want := range map[string]string{"": "", "abc": "abc", "a%20b": "a b", "%e2%82%AC": "€", "100%": "100%", "%zz%4": "%zz%4", "%2525": "%25"} {
		if got := unescape(in); got != want {
			t.Errorf("unescape %q: got %q, want %q", in, got, want)
		}
	}
}

func TestSettingsRoundTrip(t *testing.T) {
	want := Settings{HeaderTable: 1, MaxStreams: 2, InitialWindow: 3, MaxFrame: 1 << 20, MaxHeaderBytes: 5}
	b := want.Append(nil, true)
	h, p, ok, err := ReadFrame(b, DefaultMaxFrame)
	if !ok || err != nil || len(b) != HeaderBytes+h.Length {
		t.Fatalf("got %v %v %v", h, ok, err)
	}
	got := DefaultSettings()
	if err := got.Update(p); err != nil || got != want {
		t.Errorf("got %+v, want %+v (%v)", got, want, err)
	}
	for _, bad := range [][]byte{{0}, {0, 4, 0x80, 0, 0, 0}, {0, 5, 0, 0, 0, 1}, {0, 2, 0, 0, 0, 2}} {
		s := DefaultSettings()
		if s.Update(bad) == nil {
			t.Errorf("settings % x: got no error", bad)
		}
	}
}
