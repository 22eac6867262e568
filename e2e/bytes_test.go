package e2e

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"rankd/frontend/wire/rankdpb"
)

// compressed is a client's gzip whose messages come compressed already, so that a test can send what it likes. Compressors
// are found by name in a registry that must not change after init.
type compressed struct{}

func (compressed) Name() string                                      { return "gzip" }
func (compressed) Compress(w io.Writer) (io.WriteCloser, error)      { return open{w}, nil }
func (compressed) Decompress(r io.Reader) (out io.Reader, err error) { return gzip.NewReader(r) }

type open struct{ io.Writer }

func (open) Close() error { return nil }

func init() { encoding.RegisterCompressor(compressed{}) }

// sharedCodec sends one message from many calls without a copy for each.
type sharedCodec struct{}

func (sharedCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}

func (sharedCodec) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}
func (sharedCodec) Name() string { return "proto" }

func zip(t testing.TB, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// sized is a good request whose message has exactly so many bytes, and its examples.
func (c *classroom) sized(t testing.TB, want int) ([]byte, []int) {
	t.Helper()
	picks := make([]int, want/90) // a row of the test model takes 84 bytes, and a message has some around them
	for i := range picks {
		picks[i] = i % len(c.exam.examples)
	}
	for {
		request := c.exam.predictRequest(c.exam.tensors(picks, packedInt64))
		rest := want - proto.Size(request)
		if rest > 1000 {
			picks = append(picks, len(picks)%len(c.exam.examples))
			picks = append(picks, picks[:max(0, (rest-1000)/90)]...)
			continue
		}
		for n := max(0, rest-4); n <= rest; n++ { // the length of the text takes bytes of its own
			request.RequestId = strings.Repeat("x", n)
			if proto.Size(request) == want {
				message, err := proto.Marshal(request)
				if err != nil {
					t.Fatal(err)
				}
				return message, picks
			}
		}
		t.Fatalf("make a request of %d bytes: %d left over", want, rest)
	}
}

// markRaw marks the reply to a message that was sent as bytes.
func (c *classroom) markRaw(picks []int, reply []byte) error {
	var p rankdpb.PredictResponse
	if err := proto.Unmarshal(reply, &p); err != nil {
		return err
	}
	return c.exam.mark(picks, p.GetOutputs()["score"].GetData())
}

func TestMessagesUpToTheLimitAreTakenAndNoneBeyond(t *testing.T) {
	const limitBytes = 6 << 20
	c := newClassroom(t, "--max-request-bytes=6MiB")
	for _, n := range []int{4<<20 - 1, 4 << 20, 4<<20 + 1, limitBytes - 1, limitBytes, limitBytes + 1, 2 * limitBytes} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			message, picks := c.sized(t, n)
			zipped := zip(t, message)
			for name, send := range map[string]func(ctx context.Context, l *lane) ([]byte, error){
				"plain": func(ctx context.Context, l *lane) ([]byte, error) { return l.raw(ctx, predictMethod, message) },
				"gzip": func(ctx context.Context, l *lane) ([]byte, error) {
					return l.raw(ctx, predictMethod, zipped, grpc.UseCompressor("gzip"))
				},
			} {
				var reply []byte
				c.try(t, func(ctx context.Context, l *lane) (err error) { reply, err = send(ctx, l); return err }, func(err error) {
					if n > limitBytes {
						wantRefusal(t, err, codes.InvalidArgument, "request_too_large", fmt.Sprint(limitBytes), "--max-request-bytes")
						return
					}
					if err == nil {
						err = c.markRaw(picks, reply)
					}
					if err != nil {
						t.Errorf("%s: %v", name, err)
					}
				})
			}
		})
	}
	c.wantUnmoved(t)
}

func TestReplyBeyondTheClientsLimitFailsOnlyThatCall(t *testing.T) {
	c := newClassroom(t)
	message, _ := c.sized(t, 1<<20)
	c.try(t, func(ctx context.Context, l *lane) error {
		_, err := l.raw(ctx, predictMethod, message, grpc.MaxCallRecvMsgSize(1024))
		return err
	}, func(err error) {
		if status.Code(err) != codes.ResourceExhausted {
			t.Errorf("got %v, want the client to refuse the reply", err)
		}
	})
	c.wantUnmoved(t)
}

func TestDamagedCompressionIsRefused(t *testing.T) {
	c := newClassroom(t)
	message, err := proto.Marshal(c.exam.predictRequest(c.good()))
	if err != nil {
		t.Fatal(err)
	}
	whole := zip(t, message)
	for name, m := range map[string][]byte{
		"cut off":      whole[:len(whole)-1],
		"no gzip":      message,
		"bad checksum": append(bytes.Clone(whole[:len(whole)-8]), 0, 0, 0, 0, 0, 0, 0, 0),
	} {
		t.Run(name, func(t *testing.T) {
			c.try(t, func(ctx context.Context, l *lane) error {
				_, err := l.raw(ctx, predictMethod, m, grpc.UseCompressor("gzip"))
				return err
			}, func(err error) { wantRefusal(t, err, codes.InvalidArgument, "invalid_compression") })
		})
	}
	c.wantUnmoved(t)
}

// Fifty at once of what would take the most memory if it were read or inflated before it is looked at.
func TestFloodsOfOversizedMessagesTakeBoundedMemory(t *testing.T) {
	const many, perFrontend = 50, 200 << 20
	c := newClassroom(t)
	// 64 pieces that inflate to 16 MiB each: 1 MiB on the wire, 1 GiB of zeros.
	bomb := bytes.Repeat(zip(t, make([]byte, 16<<20)), 64)
	// A good request as far as the limit lets it be read: rows of zeros.
	huge := make([]byte, 64<<20)
	for name, flood := range map[string]struct {
		message []byte
		options []grpc.CallOption
	}{
		"gzip bomb":      {bomb, []grpc.CallOption{grpc.UseCompressor("gzip")}},
		"64 MiB message": {huge, nil},
	} {
		t.Run(name, func(t *testing.T) {
			before := map[int]int64{}
			for _, pid := range c.pids {
				resetPeak(t, pid)
				before[pid] = statusBytes(t, pid, "VmRSS")
			}
			began := time.Now()
			c.flood(t, many, flood.message, flood.options)
			for _, pid := range c.pids {
				peak := statusBytes(t, pid, "VmHWM")
				t.Logf("frontend %d: %s before, at most %s in %v", pid, mib(before[pid]), mib(peak), time.Since(began).Round(time.Millisecond))
				if peak > before[pid]+perFrontend {
					t.Errorf("frontend %d: got %s at most, want at most %s more than %s", pid, mib(peak), mib(perFrontend), mib(before[pid]))
				}
			}
			c.wantUnmoved(t)
		})
	}
}

// flood sends a message many times at once and a small good request every now and then.
func (c *classroom) flood(t *testing.T, many int, message []byte, o []grpc.CallOption) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	var calls sync.WaitGroup
	for n := range many {
		l := c.dial()
		calls.Go(func() {
			var reply []byte
			err := l.conn.Invoke(ctx, []string{predictMethod, inferMethod}[n%2], message, &reply, append(o, grpc.ForceCodecV2(sharedCodec{}))...)
			wantRefusal(t, err, codes.InvalidArgument, "request_too_large", "16777216", "--max-request-bytes")
		})
	}
	over := make(chan struct{})
	go func() { calls.Wait(); close(over) }()
	for {
		for _, l := range c.lanes {
			if _, err := c.exam.ask(ctx, l, c.picks, perTable, 0); err != nil {
				t.Errorf("a good request meanwhile: %v", err)
			}
		}
		select {
		case <-over:
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
}
