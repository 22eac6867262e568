package h2wire

// stream is a call and its state on the connection.
type stream struct {
	call Call
	id   uint32 // 0: it waits to be opened
	next *stream

	// Sending: the prefix and the message, of which the first done bytes are sent.
	head   [PrefixBytes]byte
	done   int
	window sendWindow
	queued bool // in Client.sendable

	// Receiving.
	receive  ReceiveWindow
	headers  bool // the reply's first field block came
	status   int  // of HTTP
	grpc     bool // the content type is gRPC's
	code     int  // grpc-status, -1: none came
	text     string
	details  []byte
	body     []byte // of all DATA frames
	trailing bool   // the block being received is the last one
}

// keepBody is the largest buffer for a reply that a stream keeps for the next call.
const keepBody = 64 << 10

func (s *stream) begin(call Call) {
	body := s.body[:0]
	if cap(body) > keepBody {
		body = nil
	}
	*s = stream{call: call, head: prefix(len(call.Message)), code: -1, body: body}
}

// total is how many bytes are to be sent.
func (s *stream) total() int { return PrefixBytes + len(s.call.Message) }

// appendBody appends the next n bytes that are to be sent.
func (s *stream) appendBody(dst []byte, n int) []byte {
	if s.done < PrefixBytes {
		k := min(n, PrefixBytes-s.done)
		dst = append(dst, s.head[s.done:][:k]...)
		s.done += k
		if n -= k; n == 0 { // the window may end inside the prefix
			return dst
		}
	}
	dst = append(dst, s.call.Message[s.done-PrefixBytes:][:n]...)
	s.done += n
	return dst
}

// fifo is a queue of streams, linked through them.
type fifo struct {
	first, last *stream
	n           int
}

func (q *fifo) empty() bool { return q.first == nil }
func (q *fifo) length() int { return q.n }

func (q *fifo) push(s *stream) {
	s.next = nil
	if q.first == nil {
		q.first = s
	} else {
		q.last.next = s
	}
	q.last = s
	q.n++
}

// pop returns nil for an empty queue.
func (q *fifo) pop() *stream {
	s := q.first
	if s == nil {
		return nil
	}
	if q.first = s.next; q.first == nil {
		q.last = nil
	}
	s.next = nil
	q.n--
	return s
}

// remove takes out those for which drop holds, and returns them linked.
func (q *fifo) remove(drop func(*stream) bool) *fifo {
	out, keep := &fifo{}, fifo{}
	for s := q.pop(); s != nil; s = q.pop() {
		if drop(s) {
			out.push(s)
		} else {
			keep.push(s)
		}
	}
	*q = keep
	return out
}
