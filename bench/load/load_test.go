package load_test

import (
	"context"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"rankd/bench/exam"
	"rankd/bench/load"
	"rankd/bench/nullserver"
	"rankd/internal/testutil"
	"rankd/internal/testutil/rawcodec"
	"rankd/model/demo"
)

func TestMain(m *testing.M) { testutil.Main(m) }

// requests makes those of a small model.
func requests(t testing.TB, rows int) *exam.Requests {
	t.Helper()
	b, err := demo.CreateTest(context.Background(), demo.TestOptions{Dir: filepath.Join(t.TempDir(), "model"), Golden: -1})
	if err != nil {
		t.Fatal(err)
	}
	o := exam.Default()
	o.Examples = 300
	s, err := exam.New(context.Background(), b, o)
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Requests(rows)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// server answers the requests that it knows as before says, which gets the number of the call; nil: at once.
type server struct {
	t       testing.TB
	r       *exam.Requests
	before  func(ctx context.Context, call uint64) error
	numbers map[string]int
	swap    bool // answers belong to the next request
	calls   atomic.Uint64
	grpc    *grpc.Server
	address string
	served  sync.WaitGroup
}

func serve(t testing.TB, s *server) *server {
	t.Helper()
	s.t, s.numbers = t, map[string]int{}
	for i, m := range s.r.Messages {
		s.numbers[string(m)] = i
	}
	s.listen("127.0.0.1:0")
	t.Cleanup(func() { s.grpc.Stop(); s.served.Wait() })
	return s
}

func (s *server) listen(address string) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		s.t.Error(err)
		return
	}
	s.address = l.Addr().String()
	s.grpc = grpc.NewServer(grpc.ForceServerCodecV2(rawcodec.Codec{}))
	s.grpc.RegisterService(&grpc.ServiceDesc{
		ServiceName: "rankd.v1.PredictionService", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Predict", Handler: s.handle}},
	}, struct{}{})
	g := s.grpc
	s.served.Go(func() { _ = g.Serve(l) })
}

func (s *server) handle(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	var in []byte
	if err := decode(&in); err != nil {
		return nil, err
	}
	call := s.calls.Add(1)
	if s.before != nil {
		if err := s.before(ctx, call); err != nil {
			return nil, err
		}
	}
	i, known := s.numbers[string(in)]
	if !known {
		return nil, status.Error(codes.InvalidArgument, "unknown request")
	}
	if s.swap {
		i = (i + 1) % len(s.r.Messages)
	}
	out := s.r.Answer(i)
	return &out, nil
}

// short is a run that tests can afford.
func short(s *server) load.Options {
	o := load.Default()
	o.Target, o.Requests = s.address, s.r
	o.Connections, o.Callers, o.Threads = 4, 8, 2
	o.Warmup, o.Duration, o.Drain = 50*time.Millisecond, 300*time.Millisecond, 5*time.Second
	return o
}

func run(t *testing.T, o load.Options) *load.Result {
	t.Helper()
	r, err := load.Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	if r.Timed != r.OK+r.Failed+r.Mismatches+r.NoReply {
		t.Errorf("got %d timed requests, want the sum of %d, %d, %d and %d (I4)", r.Timed, r.OK, r.Failed, r.Mismatches, r.NoReply)
	}
	return r
}

func TestClosedLoopCountsWhatItGets(t *testing.T) {
	s := serve(t, &server{r: requests(t, 3)})
	o := short(s)
	o.CPU = func() (float64, error) { return 1, nil }
	r := run(t, o)
	if r.OK == 0 || r.OK != r.Timed || !r.Verified || r.Rows != 3 || r.ExampleRate != 3*r.RequestRate || r.Latency.P50 <= 0 || len(r.Seconds) != 1 {
		t.Errorf("got %+v", r)
	}
	if r.Server == nil || r.Client.CPU <= 0 || r.Client.Share <= 0 || r.Client.Busiest <= 0 {
		t.Errorf("got client %+v and server %+v, want measured CPU times", r.Client, r.Server)
	}
	if !strings.Contains(r.Summary(), "every reply was right") {
		t.Errorf("got summary %s", r.Summary())
	}
}

func TestI3RepliesThatBelongToOthersAreSeen(t *testing.T) {
	s := serve(t, &server{r: requests(t, 1), swap: true})
	r := run(t, short(s))
	if r.OK != 0 || r.Mismatches == 0 || r.FirstMismatch == "" || r.RequestRate != 0 {
		t.Errorf("got %d ok and %d wrong, want all wrong: %s", r.OK, r.Mismatches, r.FirstMismatch)
	}
}

// A server that stands still for a while must show in the latency of every request that was due meanwhile.
func TestI1RequestsDueWhileTheServerStoodStillAreLate(t *testing.T) {
	const stall = 400 * time.Millisecond
	var until atomic.Int64
	s := serve(t, &server{r: requests(t, 1), before: func(_ context.Context, call uint64) error {
		if call == 50 {
			until.Store(time.Now().Add(stall).UnixNano())
		}
		if left := time.Until(time.Unix(0, until.Load())); left > 0 {
			<-time.After(left)
		}
		return nil
	}})
	for _, mode := range []string{load.Fixed, load.Poisson} {
		t.Run("I2/"+mode, func(t *testing.T) {
			s.calls.Store(0)
			o := short(s)
			o.Mode, o.Rate, o.Duration = mode, 200, time.Second
			r := run(t, o)
			if mode == load.Fixed && r.Timed != 200 {
				t.Errorf("got %d timed requests, want 200", r.Timed)
			}
			if r.OK != r.Timed {
				t.Errorf("got %d ok of %d", r.OK, r.Timed)
			}
			// 200 a second × 400 ms: some 80 of 200 requests waited, on average for half of it.
			if r.Latency.Max < 300 || r.Latency.P90 < 100 {
				t.Errorf("got %+v, want the stall of %v in it", r.Latency, stall)
			}
		})
	}
}

func TestRefusalsAreCountedByReason(t *testing.T) {
	s := serve(t, &server{r: requests(t, 1), before: func(_ context.Context, call uint64) error {
		if call%2 == 0 {
			return nil
		}
		st, err := status.New(codes.ResourceExhausted, "no room").WithDetails(&errdetails.ErrorInfo{Reason: "queue_full"})
		if err != nil {
			return err
		}
		return st.Err()
	}})
	r := run(t, short(s))
	if len(r.Errors) != 1 || r.Errors[0].Code != "ResourceExhausted" || r.Errors[0].Reason != "queue_full" || r.Errors[0].Count != r.Failed || r.Failed == 0 || r.OK == 0 {
		t.Errorf("got %+v with %d failed and %d ok", r.Errors, r.Failed, r.OK)
	}
}

func TestRequestsWithoutAReplyHaveFailed(t *testing.T) {
	s := serve(t, &server{r: requests(t, 1), before: func(ctx context.Context, call uint64) error {
		if call > 20 {
			<-ctx.Done()
		}
		return nil
	}})
	o := short(s)
	o.Mode, o.Rate, o.Drain, o.Warmup = load.Fixed, 200, 50*time.Millisecond, 0
	r := run(t, o)
	if r.Timed != 60 || r.NoReply < 40 || r.Within(1000) {
		t.Errorf("got %d timed and %d without a reply, want 60 and at least 40", r.Timed, r.NoReply)
	}
	o.Deadline, o.Drain = 100*time.Millisecond, 5*time.Second
	r = run(t, o)
	ended := uint64(0)
	for _, e := range r.Errors {
		if e.Code == "DeadlineExceeded" || e.Code == "Canceled" { // the client's clock or the server's, whichever is first
			ended += e.Count
		}
	}
	if r.NoReply != 0 || ended == 0 || ended != r.Failed {
		t.Errorf("got %d without a reply and %+v, want deadlines to end them", r.NoReply, r.Errors)
	}
}

func TestTargetsShareTheLoad(t *testing.T) {
	var calls [2]atomic.Uint64
	var targets []string
	var o load.Options
	for i := range calls {
		s := serve(t, &server{r: requests(t, 1), before: func(context.Context, uint64) error {
			calls[i].Add(1)
			return nil
		}})
		o = short(s)
		targets = append(targets, o.Target)
	}
	o.Target, o.Connections, o.Mode, o.Rate = strings.Join(targets, ","), 4, load.Fixed, 400
	if r := run(t, o); r.OK != r.Timed || r.OK == 0 {
		t.Errorf("got %d of %d requests ok: %v", r.OK, r.Timed, r.Errors)
	}
	if a, b := calls[0].Load(), calls[1].Load(); max(a, b)-min(a, b) > 4 {
		t.Errorf("got %d and %d calls, want as many for each target", a, b)
	}
	o.Connections = 3
	if _, err := load.Run(context.Background(), o); err == nil {
		t.Error("three connections for two targets: got no error")
	}
}

func TestLostConnectionsAreMadeAnew(t *testing.T) {
	for _, mode := range []string{load.Closed, load.Fixed} {
		t.Run(mode, func(t *testing.T) {
			s := serve(t, &server{r: requests(t, 1)})
			o := short(s)
			o.Mode, o.Rate, o.Duration = mode, 500, time.Second
			o.Middle = func() {
				s.grpc.Stop()
				s.listen(s.address)
			}
			r := run(t, o)
			if r.Lost || r.Reconnects != 4 || r.OK == 0 || r.Mismatches != 0 {
				t.Errorf("got %d reconnects, %d ok, %d wrong, want 4 and replies after them (%+v)", r.Reconnects, r.OK, r.Mismatches, r.Errors)
			}
		})
	}
}

func TestServerThatGoesAwayIsSaid(t *testing.T) {
	for _, mode := range []string{load.Closed, load.Fixed} {
		t.Run(mode, func(t *testing.T) {
			s := serve(t, &server{r: requests(t, 1), before: func(ctx context.Context, call uint64) error {
				if call > 20 {
					<-ctx.Done() // calls are open when it goes
				}
				return nil
			}})
			o := short(s)
			o.Mode, o.Rate, o.Warmup, o.Middle = mode, 500, 0, func() { s.grpc.Stop() }
			if r := run(t, o); !r.Lost || !strings.Contains(r.Summary(), "THE SERVER WENT AWAY") {
				t.Errorf("got %d ok, %d failed, lost %v\n%s", r.OK, r.Failed, r.Lost, r.Summary())
			}
		})
	}
}

func TestTargetThatIsNoServerIsAnError(t *testing.T) {
	o := short(&server{r: requests(t, 1), address: testutil.Address(t)})
	if _, err := load.Run(context.Background(), o); err == nil {
		t.Error("got no error for a target where nothing listens")
	}
	o.Mode, o.Threads, o.Duration = "sideways", 0, 0
	_, err := load.Run(context.Background(), o)
	for _, want := range []string{"mode", "threads", "duration"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error about %s", err, want)
		}
	}
}

func TestNullServerAnswersEverything(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- nullserver.Serve(ctx, l, 2, 16000) }()
	o := short(&server{r: requests(t, 40), address: l.Addr().String()})
	o.Verify, o.Callers = false, 64
	r := run(t, o)
	if r.OK == 0 || r.OK != r.Timed || r.Verified {
		t.Errorf("got %d ok of %d, verified %v", r.OK, r.Timed, r.Verified)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestResultsAreReadBack(t *testing.T) {
	s := serve(t, &server{r: requests(t, 1)})
	path := filepath.Join(t.TempDir(), "r.json")
	want := load.File{Schema: load.Schema, Arm: "x", Results: []*load.Result{run(t, short(s))}}
	if err := load.WriteJSON(path, &want); err != nil {
		t.Fatal(err)
	}
	got, err := load.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got.Results[0].OK != want.Results[0].OK || got.Results[0].Latency != want.Results[0].Latency {
		t.Errorf("got %+v, want %+v", got.Results[0], want.Results[0])
	}
	want.Schema++
	if err := load.WriteJSON(path, &want); err != nil {
		t.Fatal(err)
	}
	if _, err := load.ReadFile(path); err == nil {
		t.Error("another schema: got no error")
	}
}
