package h2wire

// pump moves bodies into out, a frame a stream in turn, as far as windows and SendBuffer let it.
func (c *Client) pump() {
	for c.window > 0 && len(c.out) < c.o.SendBuffer {
		s := c.sendable.pop()
		if s == nil {
			return
		}
		if s.id == 0 || c.streams[s.id] != s { // it has ended
			s.queued = false
			c.recycle(s)
			continue
		}
		left := s.total() - s.done
		n := min(left, int(c.peer.MaxFrame), int(c.window))
		if n > int(s.window) {
			n = int(s.window)
		}
		if n <= 0 { // until its WINDOW_UPDATE
			s.queued = false
			continue
		}
		var flags uint8
		if n == left {
			flags = FlagEndStream
		}
		c.out = s.appendBody(AppendHeader(c.out, n, TypeData, flags, s.id), n)
		c.window -= sendWindow(n)
		s.window -= sendWindow(n)
		if n < left {
			c.sendable.push(s)
		} else {
			s.queued = false
		}
	}
}

// wake puts a stream that has something to send back into the turn.
func (c *Client) wake(s *stream) {
	if !s.queued && s.id != 0 && s.done < s.total() && s.window > 0 {
		s.queued = true
		c.sendable.push(s)
	}
}

// recycle keeps a stream that has ended for another call, unless it is still in a queue.
func (c *Client) recycle(s *stream) {
	if !s.queued && c.free.length() < maxFree {
		s.call = Call{}
		c.free.push(s)
	}
}

// maxFree bounds the streams that are kept for later.
const maxFree = 1024
