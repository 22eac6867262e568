package predict

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"rankd/frontend/wire"
	"rankd/frontend/wire/kservepb"
	"rankd/frontend/wire/rankdpb"
)

// echo scores a row with the id of "user", after a random delay; it refuses rows with the id in refuse.
type echo struct {
	rankdpb.UnimplementedPredictionServiceServer
	kservepb.UnimplementedGRPCInferenceServiceServer
	refuse int64
	calls  atomic.Int32

	platform  string
	noOpinion bool // the server does not speak KServe
}

func (e *echo) Predict(_ context.Context, in *rankdpb.PredictRequest) (*rankdpb.PredictResponse, error) {
	e.calls.Add(1)
	<-time.After(time.Duration(rand.IntN(3000)) * time.Microsecond) // so that replies overtake each other
	var data []byte
	ids := int64s(in.GetInputs()["user"].GetData())
	for row, id := range ids {
		if id == e.refuse {
			st, err := status.Newf(codes.InvalidArgument, "got id %d", id).WithDetails(&errdetails.ErrorInfo{
				Reason: "invalid_id", Domain: "rankd", Metadata: map[string]string{"row": fmt.Sprint(row)},
			})
			if err != nil {
				return nil, err
			}
			return nil, st.Err()
		}
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(float32(id)))
	}
	return &rankdpb.PredictResponse{Outputs: map[string]*rankdpb.HostBufferProto{
		"score": {Dtype: rankdpb.DType_DTYPE_FLOAT32, Shape: []int64{int64(len(ids))}, Data: data},
	}}, nil
}

func (e *echo) ModelMetadata(_ context.Context, in *kservepb.ModelMetadataRequest) (*kservepb.ModelMetadataResponse, error) {
	if e.noOpinion {
		return nil, status.Error(codes.Unimplemented, "no such method")
	}
	type tm = kservepb.ModelMetadataResponse_TensorMetadata
	return &kservepb.ModelMetadataResponse{Name: in.GetName(), Platform: e.platform, Inputs: []*tm{
		{Name: "user", Datatype: "INT64", Shape: []int64{-1, 1}},
		{Name: "clicks.values", Datatype: "INT64", Shape: []int64{-1}},
		{Name: "clicks.lengths", Datatype: "INT32", Shape: []int64{-1}},
		{Name: "dense", Datatype: "FP32", Shape: []int64{-1, 2}},
	}}, nil
}

func serveEcho(t *testing.T, e *echo) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	rankdpb.RegisterPredictionServiceServer(s, e)
	kservepb.RegisterGRPCInferenceServiceServer(s, e)
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() { s.Stop(); <-done })
	return l.Addr().String()
}

func jsonFile(t *testing.T, rows int) string {
	t.Helper()
	var text strings.Builder
	for i := range rows {
		fmt.Fprintf(&text, `{"user":%d,"clicks":[1],"dense":[0,0]}`+"\n", i)
	}
	name := filepath.Join(t.TempDir(), "rows.jsonl")
	if err := os.WriteFile(name, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func testConfig(target string) Config {
	cfg := Default()
	cfg.Target, cfg.ModelName, cfg.Batch = target, "m", 7
	return cfg
}

func TestI1ScoresComeInTheOrderOfTheFile(t *testing.T) {
	e := &echo{refuse: -1}
	var out, report bytes.Buffer
	if err := Run(context.Background(), testConfig(serveEcho(t, e)), jsonFile(t, 500), &out, &report); err != nil {
		t.Fatal(err)
	}
	lines := strings.Fields(out.String())
	if len(lines) != 500 {
		t.Fatalf("got %d lines, want 500", len(lines))
	}
	for i, line := range lines {
		if line != fmt.Sprint(i) {
			t.Fatalf("line %d: got %s, want %d", i, line, i)
		}
	}
	if want := "rows 500  requests 72 "; !strings.HasPrefix(report.String(), want) {
		t.Errorf("got summary %q, want it to begin with %q", report.String(), want)
	}
}

func TestFirstErrorEndsTheRunAfterTheRowsBeforeIt(t *testing.T) {
	e := &echo{refuse: 100} // in the batch of rows 98 to 104
	var out, report bytes.Buffer
	err := Run(context.Background(), testConfig(serveEcho(t, e)), jsonFile(t, 5000), &out, &report)
	if err == nil || !strings.Contains(err.Error(), "rows 98 to 104") || !strings.Contains(err.Error(), "got id 100") {
		t.Fatalf("got %v, want the refusal of rows 98 to 104", err)
	}
	if !strings.Contains(err.Error(), "row 100, line 101, is refused, as row 2 of its request") {
		t.Errorf("got %v, want the number and the line of the row in the file", err)
	}
	if n := len(strings.Fields(out.String())); n != 98 {
		t.Errorf("got %d scores, want the 98 before", n)
	}
	if n := e.calls.Load(); n > 50 {
		t.Errorf("%d requests were sent, want the run to end soon after number 15", n)
	}
}

func TestErrorInTheFileComesAfterTheScoresBeforeIt(t *testing.T) {
	name := jsonFile(t, 20)
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, append(text, "nonsense\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, report bytes.Buffer
	err = Run(context.Background(), testConfig(serveEcho(t, &echo{refuse: -1})), name, &out, &report)
	if err == nil || !strings.Contains(err.Error(), "line 21") {
		t.Fatalf("got %v, want an error in line 21", err)
	}
	if n := len(strings.Fields(out.String())); n != 20 {
		t.Errorf("got %d scores, want the 20 before", n)
	}
}

func TestDeviationFromTheReferenceIsReportedAndJudged(t *testing.T) {
	name := npz(t, map[string][]byte{
		"user.npy":         npy("<i8", "False", "2, 1", raw([]int64{1000, 2})),
		"expect.score.npy": npy("<f4", "False", "2,", raw([]float32{1004, 2})),
	})
	target := serveEcho(t, &echo{refuse: -1})
	for _, c := range []struct {
		tolerance float64
		fails     bool
	}{{0.001, true}, {0.005, false}, {-1, false}} {
		cfg := testConfig(target)
		cfg.Tolerance = c.tolerance
		var out, report bytes.Buffer
		if err := Run(context.Background(), cfg, name, &out, &report); errors.Is(err, ErrDeviation) != c.fails {
			t.Errorf("tolerance %v: got %v, want a failure: %v", c.tolerance, err, c.fails)
		}
		if !strings.Contains(report.String(), `output "score"  max |delta| 4 `) {
			t.Errorf("got report %q, want the largest difference, 4", report.String())
		}
	}
}

func TestI4SimulatedScoresAreComparedWithNothing(t *testing.T) {
	name := npz(t, map[string][]byte{
		"user.npy":         npy("<i8", "False", "2, 1", raw([]int64{1000, 2})),
		"expect.score.npy": npy("<f4", "False", "2,", raw([]float32{0, 0})),
	})
	for _, c := range []struct {
		server    *echo
		simulated bool
	}{
		{&echo{refuse: -1, platform: wire.PlatformSimulated}, true},
		{&echo{refuse: -1, platform: wire.Platform}, false},
		{&echo{refuse: -1, noOpinion: true}, false},
	} {
		var out, report bytes.Buffer
		err := Run(context.Background(), testConfig(serveEcho(t, c.server)), name, &out, &report)
		if errors.Is(err, ErrDeviation) == c.simulated || err != nil && c.simulated {
			t.Errorf("platform %q: got %v, want a deviation: %v", c.server.platform, err, !c.simulated)
		}
		if strings.Contains(report.String(), "simulated accelerator") != c.simulated || strings.Contains(report.String(), "delta") == c.simulated {
			t.Errorf("platform %q: got report %q, want it to say that the scores are simulated: %v", c.server.platform, report.String(), c.simulated)
		}
		if got := strings.Fields(out.String()); len(got) != 2 {
			t.Errorf("platform %q: got scores %v, want 2", c.server.platform, got)
		}
	}
}

func TestRunWithoutScoresIsAnErrorWithoutASummary(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := free.Addr().String()
	free.Close()
	empty, null := filepath.Join(t.TempDir(), "empty.jsonl"), filepath.Join(t.TempDir(), "null.jsonl")
	if err := errors.Join(os.WriteFile(empty, []byte("\n\n"), 0o600), os.WriteFile(null, []byte("null\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	target := serveEcho(t, &echo{refuse: -1})
	for _, c := range []struct{ target, file, want string }{
		{nobody, jsonFile(t, 3), "no server at " + nobody},
		{nobody, npz(t, map[string][]byte{"user.npy": npy("<i8", "False", "1, 1", raw([]int64{1}))}), "start one with rankd serve, or name it with --target"},
		{"foo", jsonFile(t, 3), `check --target: dial: got target "foo", want host:port`},
		{target, empty, "empty.jsonl: got no examples"},
		{target, npz(t, map[string][]byte{"user.npy": npy("<i8", "False", "0, 1", nil)}), "got no examples"},
		{target, null, "line 1: column 4: got null, want {"},
	} {
		var out, report bytes.Buffer
		err := Run(context.Background(), testConfig(c.target), c.file, &out, &report)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want an error with %q", err, c.want)
		}
		if out.Len()+report.Len() > 0 {
			t.Errorf("%s: got %q and %q printed, want nothing", c.want, out.String(), report.String())
		}
	}
}

func TestCancelledRunEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var out, report bytes.Buffer
	if err := Run(ctx, testConfig(serveEcho(t, &echo{refuse: -1})), jsonFile(t, 100), &out, &report); err == nil {
		t.Error("got no error from a cancelled run")
	}
}

func TestChoicesThatAreMissingAreAskedFor(t *testing.T) {
	cfg := Default()
	for _, c := range []struct {
		name, file, word string
	}{{"", "f.npz", "--model-name"}, {"m", "", "file"}, {"m", "f.bin", "--format"}} {
		cfg.ModelName = c.name
		if err := Run(context.Background(), cfg, c.file, &bytes.Buffer{}, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), c.word) {
			t.Errorf("got %v, want an error that says %q", err, c.word)
		}
	}
}
