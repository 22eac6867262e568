package h2wire

import (
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
)

// ErrGone is returned by Start on a connection that takes no more calls: it was lost, closed, or told to go away.
var ErrGone = errors.New("connection takes no more calls")

// Handler is told how calls end.
type Handler interface {
	// Done is called exactly once for each call that Start accepted. r is good until it returns.
	Done(tag uint64, r *Reply)
}

// Reply is the end of a call.
type Reply struct {
	Code    codes.Code
	Text    string // the status message; for people
	Details []byte // a google.rpc.Status in protobuf, or nil
	Message []byte // the reply if Code is OK, without its prefix; aliases the session's memory
}

// Method is a method of a service: "/package.Service/Method". Make one and use it for all calls.
type Method struct{ Path string }

// Call is one request.
type Call struct {
	Method   *Method
	Message  []byte        // the request; must not change before Done
	Deadline time.Duration // on the clock that Start and Expire are given; 0: none
	Handler  Handler
	Tag      uint64 // given back to Done
}

// Options are those of a Client; zero values mean the defaults.
type Options struct {
	Authority    string // what the server is called; default "localhost"
	UserAgent    string // default "rankd-h2wire"
	StreamWindow uint32 // bytes of reply that may be on their way, a stream; default 1 MiB
	ConnWindow   uint32 // the same for all streams, at least 65535; default 16 MiB
	MaxReply     int    // bytes of the largest reply; default 64 MiB
	SendBuffer   int    // bytes of requests that are kept ready for the socket; default 256 KiB
}

func (o *Options) setDefaults() {
	set := func(to *uint32, value uint32) {
		if *to == 0 {
			*to = value
		}
	}
	if o.Authority == "" {
		o.Authority = "localhost"
	}
	if o.UserAgent == "" {
		o.UserAgent = "rankd-h2wire"
	}
	set(&o.StreamWindow, 1<<20)
	set(&o.ConnWindow, 16<<20)
	o.ConnWindow = max(o.ConnWindow, DefaultSettings().InitialWindow)
	if o.MaxReply == 0 {
		o.MaxReply = 64 << 20
	}
	if o.SendBuffer == 0 {
		o.SendBuffer = 256 << 10
	}
}

// Client is the client's side of one connection. It is a Session.
type Client struct {
	o    Options
	mark func() // there is something in Out

	out     []byte // to be written; the first sent bytes of it were
	sent    int
	acks    int  // answers in out that the peer asked for
	greeted bool // the peer's first SETTINGS came
	closing bool // GOAWAY either way
	err     error

	peer    Settings
	encoder Encoder
	blocks  []methodBlock
	scratch []byte

	next     uint32 // stream id
	streams  map[uint32]*stream
	waiting  fifo // calls that the peer's limit of streams holds back
	sendable fifo // streams that may have something to send
	free     fifo
	window   sendWindow
	receive  ReceiveWindow
	now      time.Duration // when we were last told
	earliest time.Duration // no deadline is before it; 0: there is none

	decoder *Decoder
	block   struct { // the field block that is being received
		stream uint32 // 0: none
		end    bool   // END_STREAM
		to     *stream
	}
	reply Reply
}

// methodBlock is the field block of a method, as long as the encoder is of its generation.
type methodBlock struct {
	method     *Method
	fields     []Field
	block      []byte
	generation uint32
}

// NewClient makes the session of a fresh connection; the preface is in Out at once.
func NewClient(o Options) *Client {
	o.setDefaults()
	def := DefaultSettings()
	c := &Client{
		o: o, mark: func() {}, peer: def, encoder: NewEncoder(), next: 1,
		streams: map[uint32]*stream{}, window: sendWindow(def.InitialWindow),
		receive: NewReceiveWindow(o.ConnWindow, def.InitialWindow),
	}
	c.decoder = NewDecoder(c.field)
	c.out = append(c.out, Preface...)
	ours := def
	ours.InitialWindow, ours.MaxHeaderBytes = o.StreamWindow, maxBlockBytes
	c.out = ours.Append(c.out, true)
	if n := c.receive.size - c.receive.left; n > 0 {
		c.receive.left = c.receive.size
		c.out = AppendWindowUpdate(c.out, 0, uint32(n))
	}
	return c
}

// Start begins a call. It never blocks: what the peer does not take yet waits here. The error is ErrGone; Done is then not called.
func (c *Client) Start(now time.Duration, call Call) error {
	if !c.Ready() {
		return ErrGone
	}
	s := c.free.pop()
	if s == nil {
		s = &stream{}
	}
	s.begin(call)
	c.now = now
	if call.Deadline > 0 && (c.earliest == 0 || call.Deadline < c.earliest) {
		c.earliest = call.Deadline
	}
	if len(c.streams) >= int(c.peer.MaxStreams) || !c.waiting.empty() {
		c.waiting.push(s)
		return nil
	}
	c.open(s)
	c.pump()
	c.mark()
	return nil
}

// Ready reports whether Start would accept a call.
func (c *Client) Ready() bool { return c.err == nil && !c.closing && c.next < 1<<31 }

// Calls returns the number of calls that have not ended.
func (c *Client) Calls() int { return len(c.streams) + c.waiting.length() }

// Greeted reports whether the server has sent its settings: whoever listens there speaks HTTP/2.
func (c *Client) Greeted() bool { return c.greeted }

// open sends the headers of a call.
func (c *Client) open(s *stream) {
	s.id = c.next
	c.next += 2
	c.streams[s.id] = s
	s.window = sendWindow(c.peer.InitialWindow)
	s.receive = NewReceiveWindow(c.o.StreamWindow, c.o.StreamWindow)
	block := c.blockOf(s.call.Method)
	if s.call.Deadline > 0 {
		c.scratch = append(c.scratch[:0], block...)
		c.scratch = append(c.scratch, "\x00\x0cgrpc-timeout"...)
		at := len(c.scratch)
		c.scratch = appendTimeout(append(c.scratch, 0), s.call.Deadline-c.now)
		c.scratch[at] = byte(len(c.scratch) - at - 1) // at most 9
		block = c.scratch
	}
	c.out = appendBlock(c.out, block, s.id, int(c.peer.MaxFrame))
	c.sendable.push(s)
	s.queued = true
}

// appendBlock appends HEADERS, and CONTINUATION where the block is longer than a frame.
func appendBlock(dst, block []byte, id uint32, maxFrame int) []byte {
	t := TypeHeaders
	for {
		n, flags := len(block), uint8(FlagEndHeaders)
		if n > maxFrame {
			n, flags = maxFrame, 0
		}
		dst = append(AppendHeader(dst, n, t, flags, id), block[:n]...)
		if block = block[n:]; flags != 0 {
			return dst
		}
		t = TypeContinuation
	}
}

// blockOf gives the headers of a method, anew only when the peer's table of fields has changed.
func (c *Client) blockOf(m *Method) []byte {
	for i := range c.blocks {
		if b := &c.blocks[i]; b.method == m {
			if b.generation != c.encoder.Generation() {
				b.block = c.encoder.Append(b.block[:0], b.fields)
				// Fields that were added now are indices the next time, so the block is kept only once nothing changes any more.
				if b.generation != c.encoder.Generation() {
					b.generation = c.encoder.Generation()
					first := b.block
					if again := c.encoder.Append(nil, b.fields); c.encoder.Generation() == b.generation {
						b.block = again
					}
					return first
				}
			}
			return b.block
		}
	}
	c.blocks = append(c.blocks, methodBlock{
		method: m, generation: c.encoder.Generation() - 1,
		fields: []Field{
			{":method", "POST"},
			{":scheme", "http"},
			{":path", m.Path},
			{":authority", c.o.Authority},
			{"content-type", "application/grpc"},
			{"te", "trailers"},
			{"user-agent", c.o.UserAgent},
		},
	})
	return c.blockOf(m)
}

// Bind is told how to say that there is something in Out. The loop calls it.
func (c *Client) Bind(mark func()) { c.mark = mark }

// Out returns what is to be written next; it is good until any other method is called.
func (c *Client) Out() []byte { return c.out[c.sent:] }

// Sent says that the first n bytes of Out were written.
func (c *Client) Sent(n int) {
	if c.sent += n; c.sent < len(c.out) {
		return
	}
	c.out, c.sent, c.acks = c.out[:0], 0, 0
	if c.err == nil {
		c.pump()
	}
}

// Close says farewell and ends all calls; the error of a call names why. The socket is for the loop to close.
func (c *Client) Close(why string) {
	if c.err == nil {
		c.out = AppendGoAway(c.out, 0, ErrCodeNo, "")
		c.end(fmt.Errorf("close connection: %s", why))
		c.mark()
	}
}
