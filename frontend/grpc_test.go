package frontend

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	grpcgzip "google.golang.org/grpc/encoding/gzip"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	"rankd/frontend/wire/kservepb"
	"rankd/frontend/wire/rankdpb"
	"rankd/internal/stats"
	"rankd/internal/testutil"
	"rankd/shmring"
)

// served is a bench behind a gRPC server on loopback.
type served struct {
	*bench
	server  *grpcServer
	address string
	conn    *grpc.ClientConn
	predict rankdpb.PredictionServiceClient
	infer   kservepb.GRPCInferenceServiceClient
	done    chan error
}

func newServed(t testing.TB, cfg Config) *served {
	t.Helper()
	s := &served{done: make(chan error, 1)}
	s.bench = newBench(t, cfg, 512, func(c *Core) {
		s.server = newGRPCServer(c, nil, c.log)
		c.OnState(s.server.health.set)
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.address = l.Addr().String()
	go func() { s.done <- s.server.serve(l) }()
	s.SetReady()
	s.conn = dial(t, s.address)
	s.predict, s.infer = rankdpb.NewPredictionServiceClient(s.conn), kservepb.NewGRPCInferenceServiceClient(s.conn)
	t.Cleanup(func() {
		s.conn.Close()
		s.server.server.Stop()
		s.server.health.end()
		<-s.done
	})
	return s
}

func dial(t testing.TB, address string, options ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(address, append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

func background(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func reasonOf(err error) string {
	for _, d := range status.Convert(err).Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			return info.Reason
		}
	}
	return ""
}

// inferOf is the same request as predictOf, in the other protocol.
func inferOf(ids ...int64) *kservepb.ModelInferRequest { return toInfer(predictOf(ids...)) }

var inferTypes = map[rankdpb.DType]string{
	rankdpb.DType_DTYPE_INT64: "INT64", rankdpb.DType_DTYPE_INT32: "INT32", rankdpb.DType_DTYPE_UINT64: "UINT64",
	rankdpb.DType_DTYPE_FLOAT32: "FP32", rankdpb.DType_DTYPE_FLOAT16: "FP16", rankdpb.DType_DTYPE_BFLOAT16: "BF16", rankdpb.DType_DTYPE_FLOAT64: "FP64",
}

func toInfer(p *rankdpb.PredictRequest) *kservepb.ModelInferRequest {
	out := &kservepb.ModelInferRequest{ModelName: p.ModelName, ModelVersion: p.ModelVersion, Id: p.RequestId}
	for name, in := range p.Inputs {
		out.Inputs = append(out.Inputs, &kservepb.ModelInferRequest_InferInputTensor{
			Name: name, Datatype: inferTypes[in.Dtype], Shape: in.Shape,
		})
		out.RawInputContents = append(out.RawInputContents, in.Data)
	}
	return out
}

func TestBothProtocolsScoreAndEchoTheID(t *testing.T) {
	s := newServed(t, testConfig())
	s.device(t, 10)
	ids := sequence(900, 150)
	p := predictOf(ids...)
	p.RequestId, p.ModelVersion = "a", "1"
	reply, err := s.predict.Predict(background(t), p)
	if err != nil {
		t.Fatal(err)
	}
	wantScores(t, floats(reply.Outputs["score"].Data), ids)
	if reply.RequestId != "a" || reply.ModelName != "test" || reply.ModelVersion != "1" {
		t.Errorf("got id %q model %q version %q", reply.RequestId, reply.ModelName, reply.ModelVersion)
	}
	k := inferOf(ids...)
	k.Id = "b"
	kreply, err := s.infer.ModelInfer(background(t), k)
	if err != nil {
		t.Fatal(err)
	}
	wantScores(t, floats(kreply.RawOutputContents[0]), ids)
	if kreply.Id != "b" || kreply.Outputs[0].Name != "score" || kreply.Outputs[0].Shape[0] != 150 {
		t.Errorf("got %v", kreply.Outputs)
	}
	s.restored(t)
}

func TestWrongModelAndVersionAreNotFound(t *testing.T) {
	s := newServed(t, testConfig())
	s.device(t, 10)
	ctx := background(t)
	p := predictOf(1)
	p.ModelName = "other"
	_, e1 := s.predict.Predict(ctx, p)
	k := inferOf(1)
	k.ModelVersion = "7"
	_, e2 := s.infer.ModelInfer(ctx, k)
	_, e3 := s.infer.ModelReady(ctx, &kservepb.ModelReadyRequest{Name: "other"})
	_, e4 := s.infer.ModelMetadata(ctx, &kservepb.ModelMetadataRequest{Name: "test", Version: "7"})
	for i, c := range []struct {
		err       error
		got, want string
	}{{e1, `"other"`, `"test"`}, {e2, `"7"`, `"1"`}, {e3, `"other"`, `"test"`}, {e4, `"7"`, `"1"`}} {
		st := status.Convert(c.err)
		if st.Code() != codes.NotFound || reasonOf(c.err) != ReasonModelNotFound || !contains(st.Message(), c.got) || !contains(st.Message(), c.want) {
			t.Errorf("case %d: got %v, want NOT_FOUND naming %s and %s", i, c.err, c.got, c.want)
		}
	}
}

func TestMetadataDescribesInputsAndOutputs(t *testing.T) {
	s := newServed(t, testConfig())
	ctx := background(t)
	if live, err := s.infer.ServerLive(ctx, &kservepb.ServerLiveRequest{}); err != nil || !live.Live {
		t.Errorf("live: got %v %v", live, err)
	}
	if md, err := s.infer.ServerMetadata(ctx, &kservepb.ServerMetadataRequest{}); err != nil || md.Name != "rankd" {
		t.Errorf("server metadata: got %v %v", md, err)
	}
	md, err := s.infer.ModelMetadata(ctx, &kservepb.ModelMetadataRequest{Name: "test"})
	if err != nil || len(md.Inputs) != 5 || len(md.Outputs) != 1 {
		t.Fatalf("got %v %v, want 5 inputs and 1 output", md, err)
	}
	if in := md.Inputs[0]; in.Name != "t0" || in.Datatype != "INT64" || in.Shape[0] != -1 || in.Shape[1] != 1 {
		t.Errorf("got first input %v", in)
	}
	if out := md.Outputs[0]; out.Name != "score" || out.Datatype != "FP32" || len(out.Shape) != 1 {
		t.Errorf("got output %v", out)
	}
}

func TestModelMetadataSaysWhetherTheDeviceIsSimulated(t *testing.T) {
	for simulated, want := range map[bool]string{false: "rankd", true: "rankd_simulated"} {
		cfg := testConfig()
		cfg.Simulated = simulated
		md, err := newServed(t, cfg).infer.ModelMetadata(background(t), &kservepb.ModelMetadataRequest{Name: "test"})
		if err != nil || md.GetPlatform() != want {
			t.Errorf("simulated %v: got platform %q %v, want %q", simulated, md.GetPlatform(), err, want)
		}
	}
}

func TestReflectionListsTheScoringMethods(t *testing.T) {
	s := newServed(t, testConfig())
	stream, err := reflectionpb.NewServerReflectionClient(s.conn).ServerReflectionInfo(background(t))
	if err != nil {
		t.Fatal(err)
	}
	ask := &reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_FileContainingSymbol{
		FileContainingSymbol: "inference.GRPCInferenceService.ModelInfer",
	}}
	if err := stream.Send(ask); err != nil {
		t.Fatal(err)
	}
	reply, err := stream.Recv()
	if err != nil || len(reply.GetFileDescriptorResponse().GetFileDescriptorProto()) == 0 {
		t.Errorf("got %v %v, want the file of the method", reply, err)
	}
	if err := stream.CloseSend(); err != nil {
		t.Error(err)
	}
}

func TestHealthFollowsTheOwnerAndTheDrain(t *testing.T) {
	s := newServed(t, testConfig())
	ctx := background(t)
	health := healthpb.NewHealthClient(s.conn)
	for _, name := range healthNames() {
		testutil.Eventually(t, 10*time.Second, name+" is serving", func() bool {
			r, err := health.Check(ctx, &healthpb.HealthCheckRequest{Service: name})
			return err == nil && r.Status == healthpb.HealthCheckResponse_SERVING
		})
	}
	watch, err := health.Watch(ctx, &healthpb.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	next := func(want healthpb.HealthCheckResponse_ServingStatus) {
		t.Helper()
		r, err := watch.Recv()
		if err != nil || r.Status != want {
			t.Fatalf("watch: got %v %v, want %v", r, err, want)
		}
	}
	next(healthpb.HealthCheckResponse_SERVING)
	s.ring.state.Store(uint32(shmring.OwnerBackoff))
	next(healthpb.HealthCheckResponse_NOT_SERVING)
	if r, err := s.infer.ServerReady(ctx, &kservepb.ServerReadyRequest{}); err != nil || r.Ready {
		t.Errorf("ready: got %v %v, want not ready", r, err)
	}
	s.ring.state.Store(uint32(shmring.OwnerUp))
	next(healthpb.HealthCheckResponse_SERVING)
	start := time.Now()
	s.server.drain(context.Background())
	next(healthpb.HealthCheckResponse_NOT_SERVING)
	if _, err := watch.Recv(); err == nil {
		t.Error("the watch goes on after the drain, want its end")
	}
	if d := time.Since(start); d > 10*time.Second {
		t.Errorf("a drain with an open watch took %s, want less than the settle time and a little", d)
	}
}

func TestDrainLosesNoAnswer(t *testing.T) {
	s := newServed(t, testConfig())
	var wg sync.WaitGroup
	errs := make(chan error, 20)
	for i := range 20 {
		wg.Go(func() {
			ids := sequence(i, 3)
			reply, err := s.predict.Predict(background(t), predictOf(ids...))
			if err == nil && floats(reply.Outputs["score"].Data)[0] != fakeScore(ids[0]) {
				err = errors.New("wrong score")
			}
			errs <- err
		})
	}
	testutil.Eventually(t, 10*time.Second, "20 calls are open", func() bool { return s.open.Load() == 20 })
	drained := make(chan struct{})
	go func() { s.server.drain(context.Background()); close(drained) }()
	testutil.Eventually(t, 10*time.Second, "draining", s.draining.Load)
	s.device(t, 10)
	wg.Wait()
	<-drained
	close(errs)
	for err := range errs {
		if err != nil {
			t.Errorf("a call that was open when the drain began: %v", err)
		}
	}
}

func TestDrainIsBoundedByItsTimeout(t *testing.T) {
	cfg := testConfig()
	cfg.DrainTimeout = 100 * time.Millisecond
	s := newServed(t, cfg)
	failed := make(chan error, 1)
	go func() {
		_, err := s.predict.Predict(background(t), predictOf(1))
		failed <- err
	}()
	testutil.Eventually(t, 10*time.Second, "the call is open", func() bool { return s.open.Load() == 1 })
	start := time.Now()
	s.server.drain(context.Background()) // no device: the call can't end
	if d := time.Since(start); d > 5*time.Second {
		t.Errorf("drain took %s, want about 100 ms", d)
	}
	if err := <-failed; status.Code(err) != codes.Unavailable {
		t.Errorf("got %v, want UNAVAILABLE", err)
	}
	s.ring.complete(10, shmring.StatusOK)
	s.restored(t)
}

func TestPanicInAHandlerIsCountedAndServingGoesOn(t *testing.T) {
	s := newServed(t, testConfig())
	s.device(t, 10)
	s.tables.panics.Store(1)
	_, err := s.predict.Predict(background(t), predictOf(1))
	if status.Code(err) != codes.Internal || reasonOf(err) != ReasonInternal {
		t.Errorf("got %v, want INTERNAL", err)
	}
	h := func(context.Context, any) (any, error) { panic("injected") }
	if _, err := s.server.recoverUnary(context.Background(), nil, nil, h); status.Code(err) != codes.Internal {
		t.Errorf("unary: got %v, want INTERNAL", err)
	}
	hs := func(any, grpc.ServerStream) error { panic("injected") }
	if err := s.server.recoverStream(nil, nil, nil, hs); status.Code(err) != codes.Internal {
		t.Errorf("stream: got %v, want INTERNAL", err)
	}
	if got := s.block.Load(stats.Panics); got != 3 {
		t.Errorf("got %d panics counted, want 3", got)
	}
	reply, err := s.predict.Predict(background(t), predictOf(4))
	if err != nil {
		t.Fatal(err)
	}
	wantScores(t, floats(reply.Outputs["score"].Data), []int64{4})
}

func TestClientThatGoesAwayLeavesNothingBehind(t *testing.T) {
	s := newServed(t, testConfig())
	for range 50 {
		ctx, cancel := context.WithCancel(context.Background())
		go cancel()
		_, _ = s.predict.Predict(ctx, predictOf(sequence(0, 9)...))
		cancel()
	}
	s.device(t, 100)
	s.restored(t)
}

func TestDeadlineOfTheClientReachesTheCore(t *testing.T) {
	s := newServed(t, testConfig())
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := s.predict.Predict(ctx, predictOf(1)); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("got %v, want DEADLINE_EXCEEDED", err)
	}
	testutil.Eventually(t, 5*time.Second, "the call has ended", func() bool { return s.open.Load() == 0 })
	s.device(t, 10)
	s.restored(t)
}

// padded is a request whose message is exactly size bytes long; most of it is an input that the model does not have.
func padded(t testing.TB, size int) *rankdpb.PredictRequest {
	p := predictOf(1)
	junk := size - len(encode(t, p)) - 100
	p.Inputs["junk"] = &rankdpb.HostBufferProto{Dtype: rankdpb.DType_DTYPE_INT8, Shape: []int64{int64(junk)}, Data: make([]byte, junk)}
	p.RequestId = "x"
	p.RequestId = strings.Repeat("x", 1+size-len(encode(t, p)))
	if got := len(encode(t, p)); got != size {
		t.Fatalf("made a request of %d bytes, want %d", got, size)
	}
	return p
}

func TestMessageLimitIsExactAndNamed(t *testing.T) {
	cfg := testConfig()
	cfg.MaxRequestBytes = 6 << 20
	s := newServed(t, cfg)
	limit := int(cfg.MaxRequestBytes)
	for _, size := range []int{4<<20 - 1, 4 << 20, 4<<20 + 1, limit - 1, limit} {
		_, err := s.predict.Predict(background(t), padded(t, size))
		if reasonOf(err) != "invalid_input_name" { // read whole: the padding is an unknown input
			t.Errorf("%d bytes: got %v, want it read and its unknown input refused", size, err)
		}
	}
	for _, size := range []int{limit + 1, 64 << 20} {
		_, err := s.predict.Predict(background(t), padded(t, size))
		st := status.Convert(err)
		if st.Code() != codes.InvalidArgument || reasonOf(err) != ReasonRequestTooLarge || !contains(st.Message(), "--max-request-bytes") ||
			!contains(st.Message(), strconv.Itoa(limit)) || !contains(st.Message(), strconv.Itoa(size)) {
			t.Errorf("%d bytes: got %v, want request_too_large with flag, limit and size", size, err)
		}
	}
}

// gzipBomb is a body that inflates to size zero bytes. It is a series of gzip members of at most 16 MiB, so that making it
// is quick.
func gzipBomb(t testing.TB, size int64) []byte {
	var b bytes.Buffer
	member := min(size, 16<<20)
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.CopyN(z, zeros{}, member); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return bytes.Repeat(b.Bytes(), int(size/member))
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// rawCompressor sends prepared bytes as if they were a compressed message.
type rawCompressor struct{ body []byte }

func (c rawCompressor) Do(w io.Writer, _ []byte) error { _, err := w.Write(c.body); return err }
func (rawCompressor) Type() string                     { return grpcgzip.Name }

func TestGzipIsBounded(t *testing.T) {
	cfg := testConfig()
	cfg.MaxRequestBytes = 2 << 20
	s := newServed(t, cfg)
	s.device(t, 10)
	reply, err := s.predict.Predict(background(t), predictOf(4), grpc.UseCompressor(grpcgzip.Name))
	if err != nil {
		t.Fatal(err)
	}
	wantScores(t, floats(reply.Outputs["score"].Data), []int64{4})

	call := func(body []byte) error {
		//lint:ignore SA1019 the only way to send a body that is not what the codec made
		conn := dial(t, s.address, grpc.WithCompressor(rawCompressor{body}))
		defer conn.Close()
		_, err := rankdpb.NewPredictionServiceClient(conn).Predict(background(t), predictOf(1))
		return err
	}
	bomb := gzipBomb(t, 1<<30)
	if len(bomb) > int(cfg.MaxRequestBytes) {
		t.Fatalf("the bomb has %d bytes, want it below the limit as it is sent", len(bomb))
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			err := call(bomb)
			if status.Code(err) != codes.InvalidArgument || reasonOf(err) != ReasonRequestTooLarge || !contains(err.Error(), "--max-request-bytes") {
				t.Errorf("bomb: got %v, want request_too_large", err)
			}
		})
	}
	wg.Wait()
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 400<<20 {
		t.Errorf("ten bombs allocated %d MiB in all, want far less than one of them inflated", grown>>20)
	}
	short := gzipBomb(t, 1000)
	for _, body := range [][]byte{short[:len(short)/2], []byte("not gzip at all"), {}} {
		if err := call(body); status.Code(err) != codes.InvalidArgument || reasonOf(err) != ReasonInvalidCompression {
			t.Errorf("damaged gzip body: got %v, want INVALID_ARGUMENT", err)
		}
	}
}

func TestReplyTooLargeForTheClientIsTheClientsError(t *testing.T) {
	s := newServed(t, testConfig())
	s.device(t, 100)
	_, err := s.predict.Predict(background(t), predictOf(sequence(0, 1000)...), grpc.MaxCallRecvMsgSize(100))
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("got %v, want the client's own RESOURCE_EXHAUSTED", err)
	}
	s.restored(t)
}

func TestRowLimits(t *testing.T) {
	cfg := testConfig()
	cfg.ChunkRows, cfg.MaxRequestRows, cfg.PendingRows = 16, 100000, 200000
	s := newServed(t, cfg)
	s.device(t, 100)
	large := make(chan error, 1)
	go func() {
		ids := sequence(5, 100000)
		reply, err := s.predict.Predict(background(t), predictOf(ids...))
		if err == nil {
			wantScores(t, floats(reply.Outputs["score"].Data), ids)
		}
		large <- err
	}()
	for _, rows := range []int{40, 255, 2, 256, 257, 1000} {
		ids := sequence(rows, rows)
		reply, err := s.infer.ModelInfer(background(t), inferOf(ids...))
		if err != nil {
			t.Fatal(err)
		}
		wantScores(t, floats(reply.RawOutputContents[0]), ids)
	}
	if err := <-large; err != nil {
		t.Fatal(err)
	}
	_, err := s.predict.Predict(background(t), predictOf(sequence(0, 100001)...))
	if status.Code(err) != codes.InvalidArgument || reasonOf(err) != ReasonRequestTooLarge || !contains(err.Error(), "--max-request-rows") {
		t.Errorf("got %v, want request_too_large", err)
	}
	s.ring.mu.Lock()
	defer s.ring.mu.Unlock()
	for _, c := range s.ring.log {
		if c.n > 16 {
			t.Fatalf("a reservation of %d rows, want at most 16", c.n)
		}
	}
}

func le64(v ...int64) (b []byte) {
	for _, x := range v {
		b = binary.LittleEndian.AppendUint64(b, uint64(x))
	}
	return b
}

func le32(v ...int32) (b []byte) {
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, uint32(x))
	}
	return b
}
