package overload

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// ReaderOptions say how slow readers behave.
type ReaderOptions struct {
	Target      string
	Path        string // of the method
	Messages    [][]byte
	Connections int
	Open        int     // calls that each keeps open
	Takes       float64 // replies a second that each takes
}

// ReaderCounts is what became of their calls.
type ReaderCounts struct {
	Begun   int `json:"begun"`
	Taken   int `json:"replies_taken"`
	Refused int `json:"ended_otherwise"`
	Open    int `json:"open_at_the_end"`
	Lost    int `json:"connections_ended_by_the_server"`
}

// Readers are slow readers at work.
type Readers struct {
	cancel context.CancelFunc
	group  sync.WaitGroup
	mu     sync.Mutex
	counts ReaderCounts
}

// StartReaders connects and begins.
func StartReaders(ctx context.Context, o ReaderOptions) (*Readers, error) {
	ctx, cancel := context.WithCancel(ctx)
	r := &Readers{cancel: cancel}
	for i := range o.Connections {
		c, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "tcp", o.Target)
		if err != nil {
			r.Stop()
			return nil, fmt.Errorf("start slow reader: %w", err)
		}
		x := &reader{o: o, conn: c, parent: r, messages: o.Messages, message: i * len(o.Messages) / o.Connections, framer: http2.NewFramer(c, c), streams: map[uint32]bool{}, next: 1}
		r.group.Go(func() { x.run(ctx) })
	}
	return r, nil
}

// Stop ends them all.
func (r *Readers) Stop() ReaderCounts {
	r.cancel()
	r.group.Wait()
	return r.counts
}

func (r *Readers) count(f func(c *ReaderCounts)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(&r.counts)
}

// reader is one connection.
type reader struct {
	o        ReaderOptions
	conn     net.Conn
	parent   *Readers
	messages [][]byte
	message  int

	mu      sync.Mutex // guards the framer's writing side and what follows
	framer  *http2.Framer
	window  int64 // of the connection, for requests
	initial int64 // of a stream
	max     int   // calls that the server allows
	next    uint32
	order   []uint32        // open streams, the oldest first
	streams map[uint32]bool // open ones; true: granted
}

const (
	defaultWindow = 65535
	grant         = 1 << 20 // bytes of a reply, more than any has
)

// run reads frames and, at its slow rate, lets replies come.
func (x *reader) run(ctx context.Context) {
	x.window, x.initial, x.max = defaultWindow, defaultWindow, 1<<30
	stop := context.AfterFunc(ctx, func() { x.conn.Close() })
	defer stop()
	granted, cancel := context.WithCancel(ctx)
	var granting sync.WaitGroup
	err := x.greet()
	granting.Go(func() { x.grantSlowly(granted) })
	for err == nil {
		var f http2.Frame
		if f, err = x.framer.ReadFrame(); err == nil {
			err = x.take(f)
		}
	}
	if ctx.Err() == nil { // nobody but the server has ended it
		x.parent.count(func(c *ReaderCounts) { c.Lost++ })
	}
	cancel()
	granting.Wait()
	x.conn.Close()
	x.parent.count(func(c *ReaderCounts) { c.Open += len(x.streams) })
}

// greet opens the connection: no stream may send data before it is granted some, but the connection as a whole may.
func (x *reader) greet() error {
	_, err := io.WriteString(x.conn, http2.ClientPreface)
	return errors.Join(err,
		x.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}),
		x.framer.WriteWindowUpdate(0, 1<<30))
}

// take handles a frame.
func (x *reader) take(f http2.Frame) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch f := f.(type) {
	case *http2.SettingsFrame:
		if f.IsAck() {
			return nil
		}
		if v, ok := f.Value(http2.SettingInitialWindowSize); ok {
			x.initial = int64(v)
		}
		if v, ok := f.Value(http2.SettingMaxConcurrentStreams); ok {
			x.max = int(min(v, 1<<30))
		}
		if err := x.framer.WriteSettingsAck(); err != nil {
			return err
		}
	case *http2.PingFrame:
		if !f.IsAck() {
			return x.framer.WritePing(true, f.Data)
		}
	case *http2.WindowUpdateFrame:
		if f.StreamID == 0 {
			x.window += int64(f.Increment)
		}
	case *http2.HeadersFrame:
		if f.StreamEnded() {
			x.ended(f.StreamID, x.streams[f.StreamID])
		}
	case *http2.RSTStreamFrame:
		x.ended(f.StreamID, false)
	case *http2.GoAwayFrame:
		return io.EOF
	}
	return x.fill()
}

func (x *reader) ended(stream uint32, taken bool) {
	if _, open := x.streams[stream]; !open {
		return
	}
	delete(x.streams, stream)
	x.parent.count(func(c *ReaderCounts) {
		if taken {
			c.Taken++
		} else {
			c.Refused++
		}
	})
}

// fill begins calls while there is room for whole requests: one that has to wait for a window would only slow the client down.
func (x *reader) fill() error {
	for len(x.streams) < min(x.o.Open, x.max) {
		m := x.messages[x.message]
		if size := int64(len(m) + 5); size > x.window || size > x.initial {
			return nil
		}
		x.message = (x.message + 1) % len(x.messages)
		if err := x.begin(m); err != nil {
			return err
		}
	}
	return nil
}

func (x *reader) begin(m []byte) error {
	var block bytes.Buffer
	e := hpack.NewEncoder(&block)
	for _, h := range [][2]string{
		{":method", "POST"},
		{":scheme", "http"},
		{":path", x.o.Path},
		{":authority", x.o.Target},
		{"content-type", "application/grpc"},
		{"te", "trailers"},
	} {
		if err := e.WriteField(hpack.HeaderField{Name: h[0], Value: h[1], Sensitive: true}); err != nil { // never indexed: each block stands alone
			return err
		}
	}
	stream := x.next
	x.next += 2
	x.streams[stream] = false
	x.order = append(x.order, stream)
	err := x.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block.Bytes(), EndHeaders: true})
	data := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(m))), m...)
	x.window -= int64(len(data))
	for len(data) > 0 && err == nil {
		n := min(len(data), 16384)
		err = x.framer.WriteData(stream, n == len(data), data[:n])
		data = data[n:]
	}
	x.parent.count(func(c *ReaderCounts) { c.Begun++ })
	return err
}

// grantSlowly lets the oldest replies come, so many a second.
func (x *reader) grantSlowly(ctx context.Context) {
	if x.o.Takes <= 0 {
		return
	}
	tick := time.NewTicker(time.Duration(float64(time.Second) / x.o.Takes))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if x.grantOldest() != nil {
				return // the reading side sees it as well
			}
		}
	}
}

func (x *reader) grantOldest() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	for len(x.order) > 0 {
		stream := x.order[0]
		x.order = x.order[1:]
		if _, open := x.streams[stream]; open {
			x.streams[stream] = true
			return x.framer.WriteWindowUpdate(stream, grant)
		}
	}
	return nil
}
