package nullserver

import (
	"encoding/binary"
	"errors"
	"io"
	"time"

	"rankd/internal/h2wire"
)

// maxWaiting is how many answers may wait for the client's window.
const maxWaiting = 1 << 20

// maxOut is how many bytes may wait for the socket.
const maxOut = 16 << 20

var errBreach = errors.New("serve connection: got frames that make no sense")

// session is the server's side of one connection.
type session struct {
	mark    func()
	out     []byte
	sent    int
	started bool // the preface came
	head    []byte
	tail    []byte
	reply   []byte // a DATA payload: prefix and message
	receive h2wire.ReceiveWindow
	window  int64 // what the client takes
	waiting []uint32
}

var _ h2wire.Session = (*session)(nil)

func newSession(replyBytes int) *session {
	s := &session{mark: func() {}, reply: h2wire.AppendMessage(nil, make([]byte, replyBytes)), window: 65535}
	settings := h2wire.DefaultSettings()
	settings.InitialWindow = 1<<31 - 1
	s.receive = h2wire.NewReceiveWindow(1<<30, 65535)
	s.out = settings.Append(s.out, false)
	s.out = h2wire.AppendWindowUpdate(s.out, 0, s.receive.Refill())
	// Blocks that add nothing to the client's table are the same for every answer.
	s.head = h2wire.AppendLiteral([]byte{0x88}, h2wire.Field{Name: "content-type", Value: "application/grpc"})
	s.tail = h2wire.AppendLiteral(nil, h2wire.Field{Name: "grpc-status", Value: "0"})
	return s
}

func (s *session) Bind(mark func()) { s.mark = mark }

func (s *session) Out() []byte { return s.out[s.sent:] }

func (s *session) Sent(n int) {
	if s.sent += n; s.sent == len(s.out) {
		s.out, s.sent = s.out[:0], 0
	}
}

func (s *session) Expire(time.Duration) time.Duration { return 0 }

func (s *session) Closed(error) {}

func (s *session) Feed(in []byte) (n int, err error) {
	if !s.started {
		if len(in) < len(h2wire.Preface) {
			return 0, nil
		}
		if string(in[:len(h2wire.Preface)]) != h2wire.Preface {
			return 0, errBreach
		}
		s.started, n = true, len(h2wire.Preface)
	}
	for {
		h, payload, ok, breach := h2wire.ReadFrame(in[n:], h2wire.DefaultMaxFrame)
		if breach != nil {
			return n, breach
		}
		if !ok {
			break
		}
		n += h2wire.HeaderBytes + h.Length
		if err := s.frame(h, payload); err != nil {
			return n, err
		}
	}
	if len(s.out)-s.sent > maxOut || len(s.waiting) > maxWaiting {
		return n, errBreach
	}
	return n, nil
}

func (s *session) frame(h h2wire.Header, p []byte) error {
	switch h.Type {
	case h2wire.TypeData, h2wire.TypeHeaders:
		if h.Type == h2wire.TypeData {
			if !s.receive.Take(h.Length) {
				return errBreach
			}
			if n := s.receive.Refill(); n > 0 {
				s.out = h2wire.AppendWindowUpdate(s.out, 0, n)
			}
		}
		if h.Has(h2wire.FlagEndStream) {
			s.waiting = append(s.waiting, h.Stream)
			s.answer()
		}
	case h2wire.TypeSettings:
		if !h.Has(h2wire.FlagAck) {
			s.out = h2wire.AppendSettingsAck(s.out)
		}
	case h2wire.TypePing:
		if len(p) != 8 {
			return errBreach
		}
		if !h.Has(h2wire.FlagAck) {
			s.out = h2wire.AppendPing(s.out, p, true)
		}
	case h2wire.TypeWindowUpdate:
		if len(p) != 4 {
			return errBreach
		}
		if h.Stream == 0 {
			s.window += int64(binary.BigEndian.Uint32(p))
			s.answer()
		}
	case h2wire.TypeGoAway:
		return io.EOF
	}
	return nil
}

// answer answers the streams that wait, as far as the window reaches. The window of a stream is taken to have room: an answer is
// shorter than the smallest that clients use by default.
func (s *session) answer() {
	k := 0
	for ; k < len(s.waiting) && s.window >= int64(len(s.reply)); k++ {
		s.window -= int64(len(s.reply))
		id := s.waiting[k]
		s.out = append(h2wire.AppendHeader(s.out, len(s.head), h2wire.TypeHeaders, h2wire.FlagEndHeaders, id), s.head...)
		s.out = append(h2wire.AppendHeader(s.out, len(s.reply), h2wire.TypeData, 0, id), s.reply...)
		s.out = append(h2wire.AppendHeader(s.out, len(s.tail), h2wire.TypeHeaders, h2wire.FlagEndHeaders|h2wire.FlagEndStream, id), s.tail...)
	}
	s.waiting = append(s.waiting[:0], s.waiting[k:]...)
}
