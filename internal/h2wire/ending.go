package h2wire

import (
	"encoding/binary"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
)

// finish ends a call whose stream the server has ended.
func (c *Client) finish(s *stream) {
	if s.done < s.total() { // an answer before the whole request: nothing more is to be sent
		c.out = AppendRST(c.out, s.id, ErrCodeNo)
	}
	code, text, message := s.outcome(c.o.MaxReply)
	c.endStream(s, code, text, message)
}

// outcome reads the end of a reply as gRPC defines it.
func (s *stream) outcome(maxReply int) (code codes.Code, text string, message []byte) {
	switch {
	case !s.headers && s.status == 0:
		return codes.Internal, "read reply: got headers without a status of HTTP", nil
	case s.status != 200 || !s.grpc:
		return codeOfHTTP(s.status), fmt.Sprintf("read reply: got HTTP status %d, content type of gRPC: %t", s.status, s.grpc), nil
	case !s.trailing:
		return codes.Internal, "read reply: the stream ended without trailers", nil
	case s.code < 0:
		return codes.Unknown, "read reply: got no grpc-status", nil
	case s.code > 0:
		return codes.Code(s.code), s.text, nil
	}
	b := s.body
	if len(b) < PrefixBytes {
		return codes.Internal, "read reply: got no message", nil
	}
	if b[0] != 0 {
		return codes.Internal, "read reply: got a compressed message, which was not asked for", nil
	}
	n := int64(binary.BigEndian.Uint32(b[1:]))
	if n > int64(maxReply) {
		return codes.ResourceExhausted, fmt.Sprintf("read reply: got %d bytes, want at most %d", n, maxReply), nil
	}
	if int64(len(b)-PrefixBytes) != n {
		return codes.Internal, fmt.Sprintf("read reply: got %d bytes, want one message of %d", len(b)-PrefixBytes, n), nil
	}
	return codes.OK, "", b[PrefixBytes:]
}

// abort ends a call from our side.
func (c *Client) abort(s *stream, reset ErrCode, code codes.Code, text string) {
	if s.id != 0 {
		c.out = AppendRST(c.out, s.id, reset)
	}
	c.endStream(s, code, text, nil)
}

// endStream forgets the stream, lets a waiting call take its place, and tells the handler.
func (c *Client) endStream(s *stream, code codes.Code, text string, message []byte) {
	delete(c.streams, s.id)
	if c.block.to == s {
		c.block.to = nil // its field block is still decoded
	}
	c.openWaiting()
	c.tell(s, code, text, message)
}

func (c *Client) tell(s *stream, code codes.Code, text string, message []byte) {
	h, tag := s.call.Handler, s.call.Tag
	s.call.Message = nil // I6
	c.reply = Reply{Code: code, Text: text, Message: message}
	if code != codes.OK {
		c.reply.Details = s.details
	}
	h.Done(tag, &c.reply)
	s.id = 0
	c.recycle(s)
}

// openWaiting opens calls that were held back.
func (c *Client) openWaiting() {
	for c.err == nil && !c.closing && len(c.streams) < int(c.peer.MaxStreams) {
		s := c.waiting.pop()
		if s == nil {
			return
		}
		c.open(s)
	}
}

// goAway ends the calls that the server will not answer; those before them go on.
func (c *Client) goAway(p []byte) *ConnError {
	if len(p) < 8 {
		return connErrorf(ErrCodeFrameSize, "read goaway: got %d bytes, want at least 8", len(p))
	}
	last, code := binary.BigEndian.Uint32(p)&maxWindow, ErrCode(binary.BigEndian.Uint32(p[4:]))
	c.closing = true
	text := fmt.Sprintf("the server goes away: %s %q", code, p[8:min(len(p), 8+256)])
	for s := c.waiting.pop(); s != nil; s = c.waiting.pop() {
		c.tell(s, codes.Unavailable, text, nil)
	}
	var unread []*stream
	for id, s := range c.streams {
		if id > last {
			unread = append(unread, s)
		}
	}
	for _, s := range unread {
		c.endStream(s, codes.Unavailable, text, nil)
	}
	return nil
}

const deadlineText = "the deadline has passed"

// Expire ends the calls whose deadline has passed, and returns the next deadline or an earlier time; 0: there is none.
func (c *Client) Expire(now time.Duration) time.Duration {
	c.now = now
	if c.earliest == 0 || now < c.earliest {
		return c.earliest
	}
	c.earliest = 0
	late := func(s *stream) bool {
		d := s.call.Deadline
		if d > 0 && d <= now {
			return true
		}
		if d > 0 && (c.earliest == 0 || d < c.earliest) {
			c.earliest = d
		}
		return false
	}
	dropped := c.waiting.remove(late)
	var open []*stream
	for _, s := range c.streams {
		if late(s) {
			open = append(open, s)
		}
	}
	for s := dropped.pop(); s != nil; s = dropped.pop() {
		c.tell(s, codes.DeadlineExceeded, deadlineText, nil)
	}
	for _, s := range open {
		if c.streams[s.id] == s {
			c.abort(s, ErrCodeCancel, codes.DeadlineExceeded, deadlineText)
		}
	}
	if len(open) > 0 {
		c.mark()
	}
	return c.earliest
}

// Closed ends all calls: the socket is gone. err may be io.EOF.
func (c *Client) Closed(err error) {
	if c.err == nil {
		c.end(fmt.Errorf("lose connection: %w", err))
	}
}

// end ends all calls of a connection that is of no use any more (I1).
func (c *Client) end(err error) {
	c.err = err
	text := err.Error()
	for s := c.waiting.pop(); s != nil; s = c.waiting.pop() {
		c.tell(s, codes.Unavailable, text, nil)
	}
	for _, s := range c.streams {
		delete(c.streams, s.id)
		c.tell(s, codes.Unavailable, text, nil)
	}
}
