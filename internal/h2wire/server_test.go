package h2wire_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"rankd/internal/h2wire"
	"rankd/internal/testutil"
	"rankd/internal/testutil/rawcodec"
)

func TestMain(m *testing.M) { testutil.Main(m) }

// method is the one method of the test server. What it does stands in the request: "echo ...", "grow N", "fail", "wait".
var method = &h2wire.Method{Path: "/test.Service/Do"}

const strange = "a % b, grüße\n100%25 \x01"

func handle(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	var in []byte
	if err := decode(&in); err != nil {
		return nil, err
	}
	verb, rest, _ := bytes.Cut(in, []byte(" "))
	switch string(verb) {
	case "grow":
		n := 0
		fmt.Sscan(string(rest), &n)
		out := bytes.Repeat([]byte{'x'}, n)
		return &out, nil
	case "fail":
		s, err := status.New(codes.ResourceExhausted, strange).WithDetails(&errdetails.ErrorInfo{Reason: "queue_full", Domain: "test"})
		if err != nil {
			return nil, err
		}
		return nil, s.Err()
	case "wait":
		<-ctx.Done()
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	return &in, nil
}

// serve starts a grpc-go server with the test method.
func serve(t testing.TB, options ...grpc.ServerOption) (address string, s *grpc.Server) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s = grpc.NewServer(append(options, grpc.ForceServerCodecV2(rawcodec.Codec{}), grpc.MaxRecvMsgSize(64<<20), grpc.MaxSendMsgSize(64<<20))...)
	s.RegisterService(&grpc.ServiceDesc{
		ServiceName: "test.Service", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Do", Handler: handle}},
	}, struct{}{})
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Stop()
		<-done
	})
	return l.Addr().String(), s
}

// answer is a Reply that is kept.
type answer struct {
	code    codes.Code
	text    string
	details []byte
	message string
}

// client drives a session on a loop, from one goroutine.
type client struct {
	t       testing.TB
	loop    *h2wire.Loop
	session *h2wire.Client
	answers map[uint64]answer
}

func (c *client) Done(tag uint64, r *h2wire.Reply) {
	if _, twice := c.answers[tag]; twice {
		c.t.Errorf("call %d: got a second end", tag)
	}
	c.answers[tag] = answer{r.Code, r.Text, bytes.Clone(r.Details), string(r.Message)}
}

func connect(t testing.TB, address string, o h2wire.Options) *client {
	t.Helper()
	loop, err := h2wire.NewLoop()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := loop.Close(); err != nil {
			t.Error(err)
		}
	})
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	fd, err := h2wire.Dial(ctx, address)
	if err != nil {
		t.Fatal(err)
	}
	c := &client{t, loop, h2wire.NewClient(o), map[uint64]answer{}}
	if err := loop.Attach(fd, c.session); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *client) start(tag uint64, message string, timeout time.Duration) {
	c.t.Helper()
	call := h2wire.Call{Method: method, Message: []byte(message), Handler: c, Tag: tag}
	if timeout > 0 {
		call.Deadline = c.loop.Now() + timeout
	}
	if err := c.session.Start(c.loop.Now(), call); err != nil {
		c.t.Fatalf("start call %d: %v", tag, err)
	}
}

// turn drives the loop until done holds.
func (c *client) turn(what string, done func() bool) {
	c.t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !done() {
		if time.Now().After(deadline) {
			c.t.Fatalf("wait for %s: not so after 20s; %d calls are open", what, c.session.Calls())
		}
		if err := c.loop.Turn(50 * time.Millisecond); err != nil {
			c.t.Fatal(err)
		}
	}
}

func (c *client) finish(n int) {
	c.t.Helper()
	c.turn(fmt.Sprintf("%d answers", n), func() bool { return len(c.answers) == n })
	if open := c.session.Calls(); open != 0 {
		c.t.Errorf("got %d open calls after all answers, want none", open)
	}
}

// official asks the same with grpc-go's own client.
func official(t testing.TB, address, path, message string) answer {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(rawcodec.Codec{}), grpc.MaxCallRecvMsgSize(64<<20)))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	in := []byte(message)
	var out []byte
	err = conn.Invoke(ctx, path, &in, &out)
	return answer{code: status.Code(err), text: status.Convert(err).Message(), message: string(out)}
}

func TestAnswersAreThoseOfGRPCGo(t *testing.T) {
	address, _ := serve(t)
	c := connect(t, address, h2wire.Options{})
	unknown := &h2wire.Method{Path: "/test.Service/Nothing"}
	questions := []string{"echo ", "echo abc", "", "fail", "grow 0", "grow 70000", "echo " + strings.Repeat("y", 200000)}
	for i, q := range questions {
		c.start(uint64(i), q, time.Minute)
	}
	if err := c.session.Start(c.loop.Now(), h2wire.Call{Method: unknown, Message: []byte("x"), Handler: c, Tag: 100}); err != nil {
		t.Fatal(err)
	}
	c.finish(len(questions) + 1)
	check := func(tag uint64, want answer) {
		got := c.answers[tag]
		if got.code != want.code || got.text != want.text || got.message != want.message {
			t.Errorf("call %d: got %v %q and %d bytes, grpc-go has %v %q and %d bytes", tag, got.code, got.text, len(got.message), want.code, want.text, len(want.message))
		}
	}
	for i, q := range questions {
		check(uint64(i), official(t, address, method.Path, q))
	}
	check(100, official(t, address, unknown.Path, "x"))
}
