package h2wire_test

import (
	"encoding/binary"
	"testing"
	"time"

	"rankd/internal/h2wire"
)

// once counts the ends of calls.
type once struct {
	t    *testing.T
	ends map[uint64]int
}

func (o *once) Done(tag uint64, r *h2wire.Reply) {
	o.ends[tag]++
	if o.ends[tag] > 1 {
		o.t.Errorf("call %d: got %d ends, want one", tag, o.ends[tag])
	}
	_ = len(r.Message) + len(r.Details) + len(r.Text)
}

// FuzzFeed gives a client with open calls any bytes, in pieces of any size. I1 and I3 must hold.
func FuzzFeed(f *testing.F) {
	hello := h2wire.DefaultSettings().Append(nil, false)
	add := func(step uint8, frames ...[]byte) {
		b := append([]byte{step}, hello...)
		for _, frame := range frames {
			b = append(b, frame...)
		}
		f.Add(b)
	}
	e := h2wire.NewEncoder()
	head := e.Append(nil, []h2wire.Field{{Name: ":status", Value: "200"}, {Name: "content-type", Value: "application/grpc"}})
	tail := e.Append(nil, []h2wire.Field{{Name: "grpc-status", Value: "0"}})
	headers := func(flags uint8, stream uint32, block []byte) []byte {
		return append(h2wire.AppendHeader(nil, len(block), h2wire.TypeHeaders, flags, stream), block...)
	}
	data := append(h2wire.AppendHeader(nil, 7, h2wire.TypeData, 0, 1), 0, 0, 0, 0, 2, 'h', 'i')
	add(255, headers(4, 1, head), data, headers(5, 1, tail))
	add(1, headers(4, 1, head), data, headers(5, 1, tail))
	add(9, h2wire.AppendGoAway(nil, 1, h2wire.ErrCodeNo, "bye"), h2wire.AppendPing(nil, make([]byte, 8), false))
	add(9, h2wire.AppendRST(nil, 3, h2wire.ErrCodeRefusedStream), h2wire.AppendWindowUpdate(nil, 0, 1<<31-1))
	add(20, h2wire.AppendHeader(nil, 0, h2wire.TypeHeaders, 1, 1), h2wire.AppendHeader(nil, 0, h2wire.TypeContinuation, 4, 1))
	small := h2wire.DefaultSettings()
	small.InitialWindow, small.MaxStreams, small.HeaderTable = 1, 1, 0
	f.Add(small.Append([]byte{3}, false))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) == 0 {
			return
		}
		step := int(b[0]) + 1
		b = b[1:]
		o := &once{t, map[uint64]int{}}
		c := h2wire.NewClient(h2wire.Options{MaxReply: 1 << 16})
		started := uint64(0)
		start := func(deadline time.Duration) {
			if c.Start(time.Second, h2wire.Call{Method: method, Message: make([]byte, 70_000), Handler: o, Tag: started, Deadline: deadline}) == nil {
				started++
			}
		}
		start(0)
		start(2 * time.Second)
		start(0)
		var held []byte
		for len(b) > 0 {
			n := min(step, len(b))
			held, b = append(held, b[:n]...), b[n:]
			used, err := c.Feed(held)
			if used < 0 || used > len(held) {
				t.Fatalf("feed: got %d of %d bytes", used, len(held))
			}
			checkFrames(t, c.Out())
			c.Sent(len(c.Out()))
			if err != nil {
				break
			}
			held = held[used:]
		}
		c.Expire(3 * time.Second)
		start(0)
		c.Closed(h2wire.ErrLoopClosed)
		if n := uint64(len(o.ends)); n != started || c.Calls() != 0 {
			t.Errorf("got ends for %d of %d calls, %d open", n, started, c.Calls())
		}
	})
}

// checkFrames wants whole frames that a peer with the default settings takes. The client's first ones follow the preface.
func checkFrames(t *testing.T, out []byte) {
	if len(out) >= len(h2wire.Preface) && string(out[:len(h2wire.Preface)]) == h2wire.Preface {
		out = out[len(h2wire.Preface):]
	}
	for len(out) > 0 {
		if len(out) < h2wire.HeaderBytes {
			t.Fatalf("got %d bytes behind the last frame", len(out))
		}
		n := int(binary.BigEndian.Uint32(append([]byte{0}, out[:3]...))) + h2wire.HeaderBytes
		if n > len(out) {
			t.Fatalf("got %d bytes of a frame of %d", len(out), n)
		}
		out = out[n:]
	}
}
