package h2wire_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"rankd/internal/h2wire"
)

// script is what a server sends after its settings, to a client that has calls 0 and 1 open on streams 1 and 3.
type script struct {
	name   string
	frames [][]byte
	want   [2]codes.Code // of the two calls; open: it has not ended
	breach h2wire.ErrCode
}

const open = codes.Code(99)

func frame(t h2wire.Type, flags uint8, stream uint32, payload ...byte) []byte {
	return append(h2wire.AppendHeader(nil, len(payload), t, flags, stream), payload...)
}

func block(fields ...string) []byte {
	var b []byte
	for i := 0; i < len(fields); i += 2 {
		b = h2wire.AppendLiteral(b, h2wire.Field{Name: fields[i], Value: fields[i+1]})
	}
	return b
}

func headers(flags uint8, stream uint32, fields ...string) []byte {
	return frame(h2wire.TypeHeaders, flags|h2wire.FlagEndHeaders, stream, block(fields...)...)
}

func scripts() []script {
	const end = h2wire.FlagEndStream
	good := headers(0, 1, ":status", "200", "content-type", "application/grpc+proto")
	message := frame(h2wire.TypeData, 0, 1, 0, 0, 0, 0, 2, 'h', 'i')
	trailers := headers(end, 1, "grpc-status", "0")
	alone := func(want codes.Code) [2]codes.Code { return [2]codes.Code{want, open} }
	both := [2]codes.Code{codes.Unavailable, codes.Unavailable}
	long := bytes.Repeat([]byte{0}, h2wire.DefaultMaxFrame)
	padded := frame(h2wire.TypeData, h2wire.FlagPadded, 1, append([]byte{3, 0, 0, 0, 0, 2, 'h', 'i'}, 0, 0, 0)...)
	head := block(":status", "200", "content-type", "application/grpc")
	return []script{
		{"a plain reply", [][]byte{good, message, trailers}, alone(codes.OK), 0},
		{"a padded reply", [][]byte{good, padded, trailers}, alone(codes.OK), 0},
		{"headers with a priority and in pieces", [][]byte{
			frame(h2wire.TypeHeaders, h2wire.FlagPriority, 1, append([]byte{0, 0, 0, 0, 16}, head[:7]...)...),
			frame(h2wire.TypeContinuation, 0, 1), frame(h2wire.TypeContinuation, h2wire.FlagEndHeaders, 1, head[7:]...), message, trailers,
		}, alone(codes.OK), 0},
		{"informational headers first", [][]byte{headers(0, 1, ":status", "103"), good, message, trailers}, alone(codes.OK), 0},
		{"frames of unknown types", [][]byte{frame(0x55, 0xff, 9, 1, 2, 3), frame(h2wire.TypePriority, 0, 1, 0, 0, 0, 0, 1), good, message, trailers}, alone(codes.OK), 0},
		{"trailers alone", [][]byte{headers(end, 1, ":status", "200", "content-type", "application/grpc", "grpc-status", "7", "grpc-message", "no%20way")}, alone(codes.PermissionDenied), 0},
		{"a page of a proxy", [][]byte{headers(0, 1, ":status", "503", "content-type", "text/html"), frame(h2wire.TypeData, end, 1, []byte("<html>")...)}, alone(codes.Unavailable), 0},
		{"no trailers", [][]byte{good, frame(h2wire.TypeData, end, 1, 0, 0, 0, 0, 0)}, alone(codes.Internal), 0},
		{"no status in the trailers", [][]byte{good, message, headers(end, 1, "x", "y")}, alone(codes.Unknown), 0},
		{"a status that is no number", [][]byte{good, message, headers(end, 1, "grpc-status", "ok")}, alone(codes.Unknown), 0},
		{"no message", [][]byte{good, trailers}, alone(codes.Internal), 0},
		{"two messages", [][]byte{good, message, message, trailers}, alone(codes.Internal), 0},
		{"half a message", [][]byte{good, frame(h2wire.TypeData, 0, 1, 0, 0, 0, 0, 9, 'h'), trailers}, alone(codes.Internal), 0},
		{"a compressed message", [][]byte{good, frame(h2wire.TypeData, 0, 1, 1, 0, 0, 0, 1, 'h'), trailers}, alone(codes.Internal), 0},
		{"a message that claims to be huge", [][]byte{good, frame(h2wire.TypeData, 0, 1, 0, 0xff, 0xff, 0xff, 0xff), trailers}, alone(codes.ResourceExhausted), 0},
		{"headers after headers", [][]byte{good, good}, alone(codes.Internal), 0},
		{"data before headers", [][]byte{message}, alone(codes.Internal), 0},
		{"a refused stream", [][]byte{h2wire.AppendRST(nil, 1, h2wire.ErrCodeRefusedStream)}, alone(codes.Unavailable), 0},
		{"a reset after the end", [][]byte{good, message, trailers, h2wire.AppendRST(nil, 1, h2wire.ErrCodeNo)}, alone(codes.OK), 0},
		{"a window of nothing", [][]byte{h2wire.AppendWindowUpdate(nil, 1, 0)}, alone(codes.Internal), 0},
		{"a window of a stream that is too large", [][]byte{h2wire.AppendWindowUpdate(nil, 1, 1<<31-1)}, alone(codes.Internal), 0},
		{"a goaway before the second call", [][]byte{h2wire.AppendGoAway(nil, 1, h2wire.ErrCodeNo, "later"), good, message, trailers}, [2]codes.Code{codes.OK, codes.Unavailable}, 0},

		{"a frame longer than allowed", [][]byte{h2wire.AppendHeader(nil, h2wire.DefaultMaxFrame+1, h2wire.TypeData, 0, 1)}, both, h2wire.ErrCodeFrameSize},
		{"data of no stream", [][]byte{frame(h2wire.TypeData, 0, 0)}, both, h2wire.ErrCodeProtocol},
		{"data of a stream of the server's", [][]byte{frame(h2wire.TypeData, 0, 2)}, both, h2wire.ErrCodeProtocol},
		{"data of a stream that is to come", [][]byte{frame(h2wire.TypeData, 0, 5)}, both, h2wire.ErrCodeProtocol},
		{"a push", [][]byte{frame(h2wire.TypePushPromise, 4, 1, 0, 0, 0, 2)}, both, h2wire.ErrCodeProtocol},
		{"a continuation of nothing", [][]byte{frame(h2wire.TypeContinuation, 4, 1)}, both, h2wire.ErrCodeProtocol},
		{"a frame amid headers", [][]byte{frame(h2wire.TypeHeaders, 0, 1, head[:7]...), frame(h2wire.TypePing, 0, 0, make([]byte, 8)...)}, both, h2wire.ErrCodeProtocol},
		{"a continuation of another stream", [][]byte{frame(h2wire.TypeHeaders, 0, 1, head[:7]...), frame(h2wire.TypeContinuation, 4, 3, head[7:]...)}, both, h2wire.ErrCodeProtocol},
		{"continuations without end", [][]byte{frame(h2wire.TypeHeaders, 0, 1), bytes.Repeat(frame(h2wire.TypeContinuation, 0, 1, block("a", strings.Repeat("b", 1000))...), 100)}, both, h2wire.ErrCodeEnhanceYourCalm},
		{"an index that is not there", [][]byte{frame(h2wire.TypeHeaders, 4, 1, 0xff, 0x50)}, both, h2wire.ErrCodeCompression},
		{"half a field", [][]byte{frame(h2wire.TypeHeaders, 4, 1, 0x00, 0x05, 'a')}, both, h2wire.ErrCodeCompression},
		{"padding longer than the frame", [][]byte{frame(h2wire.TypeData, h2wire.FlagPadded, 1, 9, 1)}, both, h2wire.ErrCodeProtocol},
		{"a short ping", [][]byte{frame(h2wire.TypePing, 0, 0, 1)}, both, h2wire.ErrCodeFrameSize},
		{"a short goaway", [][]byte{frame(h2wire.TypeGoAway, 0, 0, 1)}, both, h2wire.ErrCodeFrameSize},
		{"a ping without end", [][]byte{bytes.Repeat(frame(h2wire.TypePing, 0, 0, make([]byte, 8)...), 2000)}, both, h2wire.ErrCodeEnhanceYourCalm},
		{"settings without end", [][]byte{bytes.Repeat(frame(h2wire.TypeSettings, 0, 0), 2000)}, both, h2wire.ErrCodeEnhanceYourCalm},
		{"settings of a stream", [][]byte{frame(h2wire.TypeSettings, 0, 1)}, both, h2wire.ErrCodeProtocol},
		{"more than the stream's window", [][]byte{good, frame(h2wire.TypeData, 0, 1, long...), frame(h2wire.TypeData, 0, 1, long...)}, alone(codes.Internal), 0},
		{"a window of the connection that is too large", [][]byte{h2wire.AppendWindowUpdate(nil, 0, 1<<31-1)}, both, h2wire.ErrCodeFlowControl},
	}
}

// start opens the two calls on a client that has been greeted.
func startTwo(t *testing.T) (*h2wire.Client, map[uint64]codes.Code) {
	t.Helper()
	c := h2wire.NewClient(h2wire.Options{StreamWindow: 15_000, ConnWindow: 65535})
	ends := ender{}
	settings := h2wire.DefaultSettings()
	if _, err := c.Feed(settings.Append(nil, false)); err != nil {
		t.Fatal(err)
	}
	for tag := range uint64(2) {
		if err := c.Start(0, h2wire.Call{Method: method, Message: []byte("x"), Handler: ends, Tag: tag}); err != nil {
			t.Fatal(err)
		}
	}
	c.Sent(len(c.Out()))
	return c, ends
}

type ender map[uint64]codes.Code

func (e ender) Done(tag uint64, r *h2wire.Reply) { e[tag] = r.Code }

func TestI3WhateverTheServerSendsHasItsAnswer(t *testing.T) {
	for _, s := range scripts() {
		for _, step := range []int{1 << 20, 1} {
			t.Run(s.name, func(t *testing.T) {
				c, ends := startTwo(t)
				in := bytes.Join(s.frames, nil)
				var err error
				var held []byte
				for len(in) > 0 && err == nil {
					n := min(step, len(in))
					held, in = append(held, in[:n]...), in[n:]
					var used int
					used, err = c.Feed(held)
					held = held[used:]
				}
				var breach *h2wire.ConnError
				if got, is := err.(*h2wire.ConnError); is {
					breach = got
				}
				if s.breach == 0 && err != nil || s.breach != 0 && (breach == nil || breach.Code != s.breach) {
					t.Errorf("got %v, want the breach %v", err, s.breach)
				}
				for tag, want := range s.want {
					got, ended := ends[uint64(tag)]
					if !ended {
						got = open
					}
					if got != want {
						t.Errorf("call %d: got %v, want %v", tag, got, want)
					}
				}
				if s.breach != 0 && !endsWithGoAway(c.Out(), s.breach) {
					t.Error("got no goaway with the code as the last frame")
				}
				c.Expire(time.Hour)
			})
		}
	}
}

func endsWithGoAway(out []byte, code h2wire.ErrCode) bool {
	var last h2wire.Header
	var payload []byte
	for len(out) > 0 {
		h, p, ok, err := h2wire.ReadFrame(out, h2wire.DefaultMaxFrame)
		if !ok || err != nil {
			return false
		}
		last, payload, out = h, p, out[h2wire.HeaderBytes+h.Length:]
	}
	return last.Type == h2wire.TypeGoAway && len(payload) >= 8 && h2wire.ErrCode(payload[7]) == code
}

func TestRefillsKeepALongReplyGoing(t *testing.T) {
	c, ends := startTwo(t)
	feed := func(b []byte) {
		if _, err := c.Feed(b); err != nil {
			t.Fatal(err)
		}
	}
	feed(headers(0, 1, ":status", "200", "content-type", "application/grpc"))
	const total = 300_000 // many times the stream's window of 15,000 and that of the connection
	feed(frame(h2wire.TypeData, 0, 1, 0, 0, 0x04, 0x93, 0xe0))
	stream, conn := 15_000-5, 65535-5
	for sent := 0; sent < total; {
		n := min(5000, stream, conn, total-sent)
		if n == 0 {
			t.Fatalf("got windows of %d and %d after %d bytes, want them to be refilled", stream, conn, sent)
		}
		feed(frame(h2wire.TypeData, 0, 1, make([]byte, n)...))
		sent, stream, conn = sent+n, stream-n, conn-n
		for out := c.Out(); len(out) > 0; {
			h, p, _, _ := h2wire.ReadFrame(out, h2wire.DefaultMaxFrame)
			if h.Type == h2wire.TypeWindowUpdate {
				increment := int(p[0])<<24 | int(p[1])<<16 | int(p[2])<<8 | int(p[3])
				if h.Stream == 0 {
					conn += increment
				} else {
					stream += increment
				}
			}
			out = out[h2wire.HeaderBytes+h.Length:]
		}
		c.Sent(len(c.Out()))
		if stream > 15_000 || conn > 65535 {
			t.Fatalf("got windows of %d and %d, want at most those that were asked for", stream, conn)
		}
	}
	feed(headers(h2wire.FlagEndStream, 1, "grpc-status", "0"))
	if ends[0] != codes.OK {
		t.Errorf("got %v, want OK", ends[0])
	}
}
