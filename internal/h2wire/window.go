package h2wire

// sendWindow is what the peer lets us send. It may be negative after the peer has made its initial window smaller.
type sendWindow int64

// grow adds the increment of a WINDOW_UPDATE or the change of the initial window; it reports false where the window would be too large.
func (w *sendWindow) grow(n int64) bool {
	*w += sendWindow(n)
	return *w <= maxWindow
}

// ReceiveWindow is what the peer may send us. The zero value lets it send nothing.
type ReceiveWindow struct {
	size int64 // what it is refilled to
	left int64
}

// NewReceiveWindow gives a window of size bytes, of which left are granted already.
func NewReceiveWindow(size, left uint32) ReceiveWindow {
	return ReceiveWindow{int64(size), int64(left)}
}

// Take counts n bytes that arrived; it reports false if they were more than the peer was granted.
func (w *ReceiveWindow) Take(n int) bool {
	w.left -= int64(n)
	return w.left >= 0
}

// Refill returns the increment of a WINDOW_UPDATE to send, or 0 while more than half of the window is left.
func (w *ReceiveWindow) Refill() uint32 {
	if w.left > w.size/2 {
		return 0
	}
	n := w.size - w.left
	w.left = w.size
	return uint32(n)
}
