package h2wire

import (
	"encoding/binary"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
)

// maxAcks is how many answers to PING and SETTINGS may wait for the socket.
const maxAcks = 1024

// Feed takes bytes from the peer and returns how many of them made whole frames; the rest is to be fed again with more behind it.
// After an error there is a farewell in Out, and the socket is to be closed.
func (c *Client) Feed(in []byte) (n int, err error) {
	if c.err != nil {
		return len(in), c.err
	}
	for {
		h, payload, ok, breach := ReadFrame(in[n:], DefaultMaxFrame)
		if breach == nil && !ok {
			break
		}
		if breach == nil {
			n += HeaderBytes + h.Length
			breach = c.frame(h, payload)
		}
		if breach != nil {
			c.out = AppendGoAway(c.out, 0, breach.Code, breach.Why)
			c.end(breach)
		}
		if c.err != nil { // also if a Handler has closed the session
			return n, c.err
		}
	}
	c.pump()
	return n, nil
}

func (c *Client) frame(h Header, p []byte) *ConnError {
	if !c.greeted {
		if h.Type != TypeSettings || h.Has(FlagAck) {
			return connErrorf(ErrCodeProtocol, "read first frame: got type %d, want settings", h.Type)
		}
		c.greeted = true
	}
	if c.block.stream != 0 && (h.Type != TypeContinuation || h.Stream != c.block.stream) {
		return connErrorf(ErrCodeProtocol, "read frame: got type %d amid the headers of stream %d", h.Type, c.block.stream)
	}
	switch h.Type {
	case TypeData, TypeHeaders, TypeRSTStream, TypeContinuation:
		if h.Stream%2 == 0 || h.Stream >= c.next {
			return connErrorf(ErrCodeProtocol, "read frame of type %d: got stream %d, which was not opened", h.Type, h.Stream)
		}
	case TypeSettings, TypePing, TypeGoAway:
		if h.Stream != 0 {
			return connErrorf(ErrCodeProtocol, "read frame of type %d: got stream %d, want 0", h.Type, h.Stream)
		}
	}
	switch h.Type {
	case TypeData:
		return c.data(h, p)
	case TypeHeaders:
		return c.headers(h, p)
	case TypeContinuation:
		if c.block.stream == 0 {
			return connErrorf(ErrCodeProtocol, "read continuation of stream %d: got no headers before it", h.Stream)
		}
		return c.fragment(p, h.Has(FlagEndHeaders))
	case TypeRSTStream:
		return c.reset(h, p)
	case TypeSettings:
		return c.settings(h, p)
	case TypePushPromise:
		return connErrorf(ErrCodeProtocol, "read push promise: pushes are turned off")
	case TypePing:
		return c.ping(h, p)
	case TypeGoAway:
		return c.goAway(p)
	case TypeWindowUpdate:
		return c.windowUpdate(h, p)
	}
	return nil // PRIORITY, and what we do not know
}

func (c *Client) data(h Header, p []byte) *ConnError {
	if !c.receive.Take(h.Length) {
		return connErrorf(ErrCodeFlowControl, "read data: got more than the window of %d bytes", c.receive.size)
	}
	if n := c.receive.Refill(); n > 0 {
		c.out = AppendWindowUpdate(c.out, 0, n)
	}
	body, breach := h.Unpad(p)
	if breach != nil {
		return breach
	}
	s := c.streams[h.Stream]
	if s == nil {
		return nil // it has ended
	}
	if !s.receive.Take(h.Length) {
		c.abort(s, ErrCodeFlowControl, codes.Internal, "read data: got more than the stream's window")
		return nil
	}
	if !s.headers {
		c.abort(s, ErrCodeProtocol, codes.Internal, "read data: got it before headers")
		return nil
	}
	if len(s.body)+len(body) > PrefixBytes+c.o.MaxReply {
		c.abort(s, ErrCodeCancel, codes.ResourceExhausted, "read reply: got more than "+strconv.Itoa(c.o.MaxReply)+" bytes")
		return nil
	}
	s.body = append(s.body, body...)
	if h.Has(FlagEndStream) {
		c.finish(s)
		return nil
	}
	if n := s.receive.Refill(); n > 0 {
		c.out = AppendWindowUpdate(c.out, s.id, n)
	}
	return nil
}

func (c *Client) headers(h Header, p []byte) *ConnError {
	p, breach := h.Unpad(p)
	if breach != nil {
		return breach
	}
	c.block.stream, c.block.end, c.block.to = h.Stream, h.Has(FlagEndStream), c.streams[h.Stream]
	return c.fragment(p, h.Has(FlagEndHeaders))
}

// fragment decodes a piece of a field block, also of a stream that has ended (I5).
func (c *Client) fragment(p []byte, last bool) *ConnError {
	if breach := c.decoder.Fragment(p, last); breach != nil {
		return breach
	}
	if !last {
		return nil
	}
	s, end := c.block.to, c.block.end
	c.block.stream, c.block.to = 0, nil
	switch {
	case s == nil:
	case end:
		s.trailing = true
		c.finish(s)
	case s.headers:
		c.abort(s, ErrCodeProtocol, codes.Internal, "read trailers: got no end of the stream with them")
	case s.status >= 100 && s.status < 200: // informational: more headers follow
		s.status = 0
	default:
		s.headers = true
	}
	return nil
}

// field takes one field of the block that is being received.
func (c *Client) field(name, value string) {
	s := c.block.to
	if s == nil {
		return
	}
	switch name {
	case ":status":
		s.status, _ = strconv.Atoi(value) // 0 is no success either
	case "content-type":
		s.grpc = strings.HasPrefix(value, "application/grpc")
	case "grpc-status":
		n, err := strconv.ParseUint(value, 10, 31)
		if err != nil {
			n = uint64(codes.Unknown)
		}
		s.code = int(n)
	case "grpc-message":
		s.text = unescape(value)
	case "grpc-status-details-bin":
		s.details, _ = decodeBinary(value) // without them the code still stands
	}
}

func (c *Client) reset(h Header, p []byte) *ConnError {
	if len(p) != 4 {
		return connErrorf(ErrCodeFrameSize, "read reset: got %d bytes, want 4", len(p))
	}
	if s := c.streams[h.Stream]; s != nil {
		code := ErrCode(binary.BigEndian.Uint32(p))
		if d := s.call.Deadline; code == ErrCodeCancel && d > 0 && c.now+2*expireIdle >= d {
			// The server, which counts from when the request came to it, was told the deadline too; our clock is only read by Expire.
			c.endStream(s, codes.DeadlineExceeded, deadlineText, nil)
			return nil
		}
		c.endStream(s, codeOfReset(code), "the server reset the stream: "+code.String(), nil)
	}
	return nil
}

func (c *Client) settings(h Header, p []byte) *ConnError {
	if h.Has(FlagAck) {
		if len(p) != 0 {
			return connErrorf(ErrCodeFrameSize, "read settings ack: got %d bytes, want none", len(p))
		}
		return nil
	}
	was := c.peer.InitialWindow
	if breach := c.peer.Update(p); breach != nil {
		return breach
	}
	if breach := c.answer(); breach != nil {
		return breach
	}
	c.out = AppendSettingsAck(c.out)
	c.encoder.SetLimit(c.peer.HeaderTable)
	if delta := int64(c.peer.InitialWindow) - int64(was); delta != 0 {
		for _, s := range c.streams {
			if !s.window.grow(delta) {
				return connErrorf(ErrCodeFlowControl, "read settings: got a window of stream %d above 2^31-1", s.id)
			}
			c.wake(s)
		}
	}
	c.openWaiting()
	return nil
}

func (c *Client) ping(h Header, p []byte) *ConnError {
	if len(p) != 8 {
		return connErrorf(ErrCodeFrameSize, "read ping: got %d bytes, want 8", len(p))
	}
	if h.Has(FlagAck) {
		return nil
	}
	if breach := c.answer(); breach != nil {
		return breach
	}
	c.out = AppendPing(c.out, p, true)
	return nil
}

// answer counts an answer that the peer asked for: one that does not read must not make us keep them without bound.
func (c *Client) answer() *ConnError {
	if c.acks++; c.acks > maxAcks {
		return connErrorf(ErrCodeEnhanceYourCalm, "read frames: got %d pings and settings before the answers were taken", c.acks)
	}
	return nil
}

func (c *Client) windowUpdate(h Header, p []byte) *ConnError {
	if len(p) != 4 {
		return connErrorf(ErrCodeFrameSize, "read window update: got %d bytes, want 4", len(p))
	}
	n := int64(binary.BigEndian.Uint32(p) & maxWindow)
	if h.Stream == 0 {
		if n == 0 || !c.window.grow(n) {
			return connErrorf(ErrCodeFlowControl, "read window update: got %d, want a window of 1 to 2^31-1", n)
		}
		return nil
	}
	if h.Stream%2 == 0 || h.Stream >= c.next {
		return connErrorf(ErrCodeProtocol, "read window update: got stream %d, which was not opened", h.Stream)
	}
	s := c.streams[h.Stream]
	if s == nil {
		return nil
	}
	if n == 0 || !s.window.grow(n) {
		c.abort(s, ErrCodeFlowControl, codes.Internal, "read window update: got a window outside 1 to 2^31-1")
		return nil
	}
	c.wake(s)
	return nil
}
