package e2e

import (
	"context"
	"fmt"
	"math"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"rankd/frontend/wire/kservepb"
	"rankd/frontend/wire/rankdpb"
	"rankd/internal/testutil"
)

// lane is one client connection: to one frontend at a time, as long as that lives.
type lane struct {
	conn    *grpc.ClientConn
	predict rankdpb.PredictionServiceClient
	infer   kservepb.GRPCInferenceServiceClient

	mu    sync.Mutex
	local netip.AddrPort // of the last connection
}

// dial opens a lane. Calls are not retried: what fails must be seen.
func (s *server) dial(extra ...grpc.DialOption) *lane {
	s.t.Helper()
	l := &lane{}
	o := append([]grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDisableRetry(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32), grpc.MaxCallSendMsgSize(math.MaxInt32)),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 10 * time.Millisecond, Multiplier: 1.5, MaxDelay: 200 * time.Millisecond},
			MinConnectTimeout: 10 * time.Second,
		}),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
			if err == nil {
				l.mu.Lock()
				l.local = conn.LocalAddr().(*net.TCPAddr).AddrPort()
				l.mu.Unlock()
			}
			return conn, err
		}),
	}, extra...)
	conn, err := grpc.NewClient("passthrough:///"+s.listen, o...)
	if err != nil {
		s.t.Fatalf("dial %s: %v", s.listen, err)
	}
	l.conn, l.predict, l.infer = conn, rankdpb.NewPredictionServiceClient(conn), kservepb.NewGRPCInferenceServiceClient(conn)
	s.t.Cleanup(func() { conn.Close() })
	return l
}

// connect waits until the lane is accepted. A connection may break once more while its frontend ends.
func (l *lane) connect(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	for {
		_, err := l.infer.ServerLive(ctx, &kservepb.ServerLiveRequest{}, grpc.WaitForReady(true))
		if err == nil {
			return
		}
		if status.Code(err) != codes.Unavailable {
			t.Fatalf("connect: %v", err)
		}
	}
}

// frontendOf says which frontend has a lane's connection.
func (s *server) frontendOf(l *lane) int {
	s.t.Helper()
	to, err := netip.ParseAddrPort(s.listen)
	if err != nil {
		s.t.Fatal(err)
	}
	index := -1
	testutil.Eventually(s.t, limit, "a connection to be accepted", func() bool {
		l.connect(s.t)
		l.mu.Lock()
		port := l.local.Port()
		l.mu.Unlock()
		pids, byPID := []int{}, map[int]int{}
		for _, c := range s.frontends() {
			pids, byPID[c.PID] = append(pids, c.PID), c.Index
		}
		pid, ok := socketOwner(to.Port(), port, pids)
		index = byPID[pid]
		return ok
	})
	return index
}

// lanes opens lanes until every one of n frontends has each of them. What goes to a frontend that has enough stays open
// until then: a steered server would send the next one there again.
func (s *server) lanes(n, each int, extra ...grpc.DialOption) [][]*lane {
	s.t.Helper()
	by := make([][]*lane, n)
	var spare []*lane
	defer func() {
		for _, l := range spare {
			l.conn.Close()
		}
	}()
	for missing, tries := n, 0; missing > 0; tries++ {
		if tries > 64*n*each {
			s.t.Fatalf("spread lanes over %d frontends: %d have less than %d after %d connections", n, missing, each, tries)
		}
		l := s.dial(extra...)
		i := s.frontendOf(l)
		if len(by[i]) >= each {
			spare = append(spare, l)
			continue
		}
		if by[i] = append(by[i], l); len(by[i]) == each {
			missing--
		}
	}
	return by
}

func flat(by [][]*lane) []*lane {
	var all []*lane
	for _, lanes := range by {
		all = append(all, lanes...)
	}
	return all
}

// ask sends one request in one of the forms and marks the reply. The kind chooses the protocol: 0 rankd, 1 raw, 2 typed contents.
func (e *exam) ask(ctx context.Context, l *lane, picks []int, f form, kind int) (scored bool, err error) {
	var raw []byte
	list := e.tensors(picks, f)
	if kind == 0 {
		reply, err := l.predict.Predict(ctx, e.predictRequest(list))
		if err != nil {
			return false, err
		}
		raw = reply.GetOutputs()["score"].GetData()
	} else {
		request := e.inferRequest(list)
		if kind == 2 {
			request = typed(request)
		}
		reply, err := l.infer.ModelInfer(ctx, request)
		if err != nil {
			return false, err
		}
		if n := len(reply.RawOutputContents); n != 1 {
			return true, fmt.Errorf("got %d outputs, want 1", n)
		}
		raw = reply.RawOutputContents[0]
	}
	return true, e.mark(picks, raw)
}
