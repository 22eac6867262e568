package h2wire_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	statuspb "google.golang.org/genproto/googleapis/rpc/status"

	"rankd/internal/h2wire"
)

func TestManyCallsShareAConnection(t *testing.T) {
	address, _ := serve(t)
	c := connect(t, address, h2wire.Options{})
	const n = 2000
	for i := range uint64(n) {
		c.start(i, fmt.Sprintf("echo %d", i), time.Minute)
	}
	c.finish(n)
	for tag, a := range c.answers {
		if want := fmt.Sprintf("echo %d", tag); a.code != codes.OK || a.message != want {
			t.Fatalf("call %d: got %v %q, want %q", tag, a.code, a.message, want)
		}
	}
}

func TestServerLimitOfStreamsHoldsCallsBack(t *testing.T) {
	address, _ := serve(t, grpc.MaxConcurrentStreams(3))
	c := connect(t, address, h2wire.Options{})
	c.turn("the server's settings", c.session.Greeted)
	for i := range uint64(100) {
		c.start(i, fmt.Sprintf("echo %d", i), 0)
	}
	c.finish(100)
	for tag, a := range c.answers {
		if a.code != codes.OK {
			t.Errorf("call %d: got %v %s", tag, a.code, a.text)
		}
	}
}

func TestBigMessagesPassThroughWindowsOfAnySize(t *testing.T) {
	const size = 16 << 20
	for _, w := range []uint32{1024, 65535, 8 << 20} {
		t.Run(fmt.Sprint(w), func(t *testing.T) {
			n := size
			if w < 65535 {
				n = 300_000
			}
			address, _ := serve(t, grpc.InitialWindowSize(int32(w)), grpc.InitialConnWindowSize(int32(w)))
			c := connect(t, address, h2wire.Options{StreamWindow: w, ConnWindow: w})
			big := "echo " + strings.Repeat("0123456789abcdef", n/16)
			c.start(0, big, time.Minute)
			c.start(1, "echo small", time.Minute)
			c.start(2, fmt.Sprintf("grow %d", n), time.Minute)
			c.finish(3)
			if c.answers[0].message != big || c.answers[1].message != "echo small" || c.answers[2].message != strings.Repeat("x", n) {
				t.Errorf("got %d, %d and %d bytes (%v %s), want %d, 10 and %d of those that were sent", len(c.answers[0].message), len(c.answers[1].message),
					len(c.answers[2].message), c.answers[0].code, c.answers[0].text, len(big), n)
			}
		})
	}
}

func TestRequestAboveTheServersLimitEndsThatCallAlone(t *testing.T) {
	address, _ := serve(t)
	c := connect(t, address, h2wire.Options{MaxReply: 1000})
	c.start(0, strings.Repeat("z", 65<<20), time.Minute) // the server's limit is 64 MiB
	c.start(1, "grow 1001", time.Minute)
	c.start(2, "grow 1000", time.Minute)
	c.finish(3)
	for tag, want := range map[uint64]codes.Code{0: codes.ResourceExhausted, 1: codes.ResourceExhausted, 2: codes.OK} {
		if got := c.answers[tag]; got.code != want {
			t.Errorf("call %d: got %v %s, want %v", tag, got.code, got.text, want)
		}
	}
}

func TestDetailsOfARefusalAreKept(t *testing.T) {
	address, _ := serve(t)
	c := connect(t, address, h2wire.Options{})
	c.start(0, "fail", 0)
	c.finish(1)
	var s statuspb.Status
	if err := proto.Unmarshal(c.answers[0].details, &s); err != nil {
		t.Fatal(err)
	}
	if len(s.GetDetails()) != 1 || s.GetMessage() != strange || s.GetCode() != int32(codes.ResourceExhausted) {
		t.Errorf("got %v, want the status that the server sent", &s)
	}
}

func TestDeadlineEndsACallAndFreesItsStream(t *testing.T) {
	address, _ := serve(t, grpc.MaxConcurrentStreams(1))
	c := connect(t, address, h2wire.Options{})
	c.turn("the server's settings", c.session.Greeted)
	c.start(0, "wait", 30*time.Millisecond)
	c.start(1, "echo after", 5*time.Second) // waits for the stream
	c.start(2, "wait", 20*time.Millisecond) // its deadline passes while it waits
	c.finish(3)
	for tag, want := range map[uint64]codes.Code{0: codes.DeadlineExceeded, 1: codes.OK, 2: codes.DeadlineExceeded} {
		if got := c.answers[tag]; got.code != want {
			t.Errorf("call %d: got %v %s, want %v", tag, got.code, got.text, want)
		}
	}
}

func TestServerThatGoesAwayEndsEveryCallOnce(t *testing.T) {
	t.Run("I1/gracefully", func(t *testing.T) {
		address, s := serve(t)
		c := connect(t, address, h2wire.Options{})
		c.turn("the server's settings", c.session.Greeted)
		for i := range uint64(50) {
			c.start(i, "wait", 300*time.Millisecond)
		}
		c.turn("requests to be sent", func() bool { return len(c.session.Out()) == 0 })
		stopped := make(chan struct{})
		go func() { s.GracefulStop(); close(stopped) }()
		c.turn("goaway", func() bool { return !c.session.Ready() })
		if err := c.session.Start(c.loop.Now(), h2wire.Call{Method: method, Handler: c, Tag: 999}); err != h2wire.ErrGone {
			t.Errorf("start after goaway: got %v, want %v", err, h2wire.ErrGone)
		}
		c.finish(50)
		<-stopped
	})
	t.Run("I1/at once", func(t *testing.T) {
		address, s := serve(t)
		c := connect(t, address, h2wire.Options{})
		for i := range uint64(50) {
			c.start(i, "wait", 0)
		}
		c.turn("the server's settings", c.session.Greeted)
		go s.Stop()
		c.finish(50)
		for tag, a := range c.answers {
			if a.code != codes.Unavailable && a.code != codes.Canceled {
				t.Errorf("call %d: got %v %s, want a lost connection", tag, a.code, a.text)
			}
		}
		if c.loop.Sessions() != 0 {
			t.Errorf("got %d sessions, want none", c.loop.Sessions())
		}
	})
	t.Run("I1/by us", func(t *testing.T) {
		address, _ := serve(t)
		c := connect(t, address, h2wire.Options{})
		c.start(0, "wait", 0)
		c.session.Close("enough")
		c.finish(1)
		c.loop.Detach(c.session)
	})
}

func TestPostRunsOnTheLoop(t *testing.T) {
	address, _ := serve(t)
	c := connect(t, address, h2wire.Options{})
	go func() {
		c.loop.Post(func() { c.start(7, "echo posted", 0) })
	}()
	c.finish(1)
	if got := c.answers[7].message; got != "echo posted" {
		t.Errorf("got %q, want %q", got, "echo posted")
	}
}

// counter is a Handler that allocates nothing.
type counter struct{ left, bad int }

func (c *counter) Done(_ uint64, r *h2wire.Reply) {
	c.left--
	if r.Code != codes.OK {
		c.bad++
	}
}

func TestWarmCallAllocatesNothing(t *testing.T) {
	// I4 is about the session, so the peer is a recording of one that answers at once.
	s := h2wire.NewClient(h2wire.Options{})
	peer := newAnswerer()
	h := &counter{}
	message := make([]byte, 1300)
	var tag uint64
	exchange := func() {
		for range 16 {
			h.left++
			if err := s.Start(0, h2wire.Call{Method: method, Message: message, Handler: h, Tag: tag}); err != nil {
				t.Fatal(err)
			}
			tag++
		}
		reply := peer.answer(s.Out())
		s.Sent(len(s.Out()))
		if n, err := s.Feed(reply); err != nil || n != len(reply) {
			t.Fatalf("feed: got %d of %d bytes, %v", n, len(reply), err)
		}
	}
	for range 100 {
		exchange()
	}
	if n := testing.AllocsPerRun(200, exchange); n > 0.5 {
		t.Errorf("got %v allocations for 16 calls, want none", n)
	}
	if h.left != 0 || h.bad != 0 {
		t.Errorf("got %d calls without an end and %d errors, want none", h.left, h.bad)
	}
}

// answerer reads what a client sends and answers every request whose end it sees.
type answerer struct {
	out     []byte
	encoder h2wire.Encoder
}

func newAnswerer() *answerer {
	settings := h2wire.DefaultSettings()
	settings.InitialWindow = 1 << 30
	return &answerer{out: settings.Append(nil, false), encoder: h2wire.NewEncoder()}
}

func (a *answerer) answer(in []byte) []byte {
	if len(in) >= len(h2wire.Preface) && string(in[:len(h2wire.Preface)]) == h2wire.Preface {
		in = in[len(h2wire.Preface):]
	} else {
		a.out = a.out[:0]
	}
	for len(in) > 0 {
		h, p, ok, err := h2wire.ReadFrame(in, h2wire.DefaultMaxFrame)
		if err != nil || !ok {
			panic(fmt.Sprint("the client sent no whole frames: ", err))
		}
		in = in[h2wire.HeaderBytes+len(p):]
		if h.Type != h2wire.TypeData || !h.Has(h2wire.FlagEndStream) {
			continue
		}
		a.out = h2wire.AppendWindowUpdate(a.out, 0, uint32(len(p)))
		a.headers(h.Stream, h2wire.FlagEndHeaders, h2wire.Field{Name: ":status", Value: "200"}, h2wire.Field{Name: "content-type", Value: "application/grpc"})
		a.out = append(h2wire.AppendHeader(a.out, 9, h2wire.TypeData, 0, h.Stream), 0, 0, 0, 0, 4, 1, 2, 3, 4)
		a.headers(h.Stream, h2wire.FlagEndHeaders|h2wire.FlagEndStream, h2wire.Field{Name: "grpc-status", Value: "0"})
	}
	return a.out
}

func (a *answerer) headers(stream uint32, flags uint8, fields ...h2wire.Field) {
	var block [64]byte
	b := a.encoder.Append(block[:0], fields)
	a.out = append(h2wire.AppendHeader(a.out, len(b), h2wire.TypeHeaders, flags, stream), b...)
}
