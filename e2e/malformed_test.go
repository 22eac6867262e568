package e2e

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"rankd/frontend/wire/kservepb"
	"rankd/frontend/wire/rankdpb"
)

// malformed is a request of three rows in the test model that must be refused.
type malformed struct {
	name   string
	mold   func(good []tensor) []tensor
	reason string
	words  []string // the tensor, what came, what was wanted
}

// replace puts in for the tensor of its name, or behind the others if there is none.
func replace(in tensor) func([]tensor) []tensor {
	return func(list []tensor) []tensor {
		for i := range list {
			if list[i].name == in.name {
				list[i] = in
				return list
			}
		}
		return append(list, in)
	}
}

func remove(name string) func([]tensor) []tensor {
	return func(list []tensor) []tensor {
		return slices.DeleteFunc(list, func(t tensor) bool { return t.name == name })
	}
}

func dense(bytes int, shape ...int64) func([]tensor) []tensor {
	return replace(tensor{"dense", typeFloat32, shape, make([]byte, bytes)})
}

// bags gives table t1 six ids in bags that end says the sizes of.
func bags(ends tensor) func([]tensor) []tensor {
	return func(list []tensor) []tensor {
		return append(remove("t1")(list), ints("t1.values", typeInt64, 1, 2, 3, 4, 5, 6), ends)
	}
}

func offsets(at ...int64) func([]tensor) []tensor { return bags(ints("t1.offsets", typeInt64, at...)) }

func lengths(n ...int64) func([]tensor) []tensor { return bags(ints("t1.lengths", typeInt32, n...)) }

func ids(in tensor) func([]tensor) []tensor {
	in.name, in.shape = "t2", []int64{3, 1}
	return replace(in)
}

// malformedRequests can be written in both protocols. A good dense is [3,13] and has 156 bytes.
func malformedRequests() []malformed {
	const shape, length, element = "invalid_shape", "invalid_size", "invalid_dtype"
	return []malformed{
		{"dense a byte short", dense(155, 3, 13), length, []string{`"dense"`, "155", "156"}},
		{"dense a byte long", dense(157, 3, 13), length, []string{`"dense"`, "157", "156"}},
		{"dense without bytes", dense(0, 3, 13), length, []string{`"dense"`, "0", "156"}},
		{"input missing", remove("t3"), "invalid_missing_input", []string{`"t3"`}},
		{"dense missing", remove("dense"), "invalid_missing_input", []string{`"dense"`}},
		{"input unknown", replace(ints("t4", typeInt64, 1, 2, 3)), "invalid_input_name", []string{`"t4"`, `"t3"`}},
		{"two forms of a table", replace(ints("t1.values", typeInt64, 1)), "invalid_duplicate_input", []string{`"t1"`, `"t1.values"`}},

		{"negative rows", dense(0, -1, 13), shape, []string{`"dense"`, "[-1,13]"}},
		{"no rows", dense(0, 0, 13), shape, []string{`"dense"`, "[0,13]"}},
		{"negative width", dense(0, 3, -13), shape, []string{`"dense"`, "[3,-13]"}},
		{"two negative dimensions", dense(156, -3, -13), shape, []string{`"dense"`, "[-3,-13]"}},
		{"flat", dense(156, 39), shape, []string{`"dense"`, "[39]", "[B,13]"}},
		{"narrow", dense(144, 3, 12), shape, []string{`"dense"`, "[3,12]", "[B,13]"}},
		{"one dimension more", dense(156, 3, 13, 1), shape, []string{`"dense"`, "[3,13,1]", "[B,13]"}},
		{"byte count that wraps to 0", dense(0, 1<<62, 13), shape, []string{`"dense"`, "4611686018427387904"}},
		{"element count that wraps to 0", dense(0, 1<<32, 1<<32), shape, []string{`"dense"`, "4294967296"}},
		{"byte count that wraps to the right one", dense(156, 1<<62+3, 13), shape, []string{`"dense"`, "4611686018427387907"}},
		{"rows that differ", dense(104, 2, 13), shape, []string{`"dense"`, "2", "3"}},

		{"offsets from 1, without the end", offsets(1, 2, 4), shape, []string{`"t1.offsets"`, "2 rows", "3", "one offset more"}},
		{"offsets that fall, without the end", offsets(0, 5, 3), shape, []string{`"t1.offsets"`, "2 rows", "3", "one offset more"}},
		{"offsets beyond the ids, without the end", offsets(0, 2, 7), shape, []string{`"t1.offsets"`, "2 rows", "3", "one offset more"}},
		{"negative offset, without the end", offsets(0, -2, 4), shape, []string{`"t1.offsets"`, "2 rows", "3", "one offset more"}},
		{"huge offset, without the end", offsets(0, 1<<40, 6), shape, []string{`"t1.offsets"`, "2 rows", "3", "one offset more"}},
		{"two offsets", offsets(0, 3), "invalid_offsets", []string{`"t1.offsets"`, "3", "6"}},
		{"offsets from 1", offsets(1, 2, 4, 6), "invalid_offsets", []string{`"t1.offsets"`, "1", "0"}},
		{"offsets that fall", offsets(0, 5, 3, 6), "invalid_offsets", []string{`"t1.offsets"`, "5", "3"}},
		{"offsets beyond the ids", offsets(0, 2, 4, 7), "invalid_offsets", []string{`"t1.offsets"`, "7", "6"}},
		{"negative offset", offsets(0, -2, 4, 6), "invalid_offsets", []string{`"t1.offsets"`, "-2"}},
		{"huge offset", offsets(0, 1<<40, 6, 6), "invalid_offsets", []string{`"t1.offsets"`, "1099511627776", "6"}},
		{"offsets of two rows", offsets(0, 2, 6), shape, []string{"2", "3"}},
		{"offsets of four rows", offsets(0, 1, 2, 4, 6), shape, []string{"4", "3"}},
		{"lengths of seven ids", lengths(2, 2, 3), "invalid_lengths", []string{`"t1.lengths"`, "3", "6"}},
		{"lengths of five ids", lengths(2, 2, 1), "invalid_lengths", []string{`"t1.lengths"`, "5", "6"}},
		{"huge length", lengths(2147483647, 1, 1), "invalid_lengths", []string{`"t1.lengths"`, "2147483647", "6"}},
		{"lengths that wrap", lengths(2147483647, 2147483647, 8), "invalid_lengths", []string{`"t1.lengths"`}},
		{"negative length", lengths(4, -1, 3), "invalid_lengths", []string{`"t1.lengths"`, "-1"}},

		{"int32 bytes declared int64", ids(tensor{dtype: typeInt64, data: integers(nil, typeInt32, 1, 2, 3)}), length, []string{`"t2"`, "12", "24"}},
		{"uint64 ids", ids(tensor{dtype: typeUint64, data: integers(nil, typeInt64, -1, 1, 1)}), element, []string{`"t2"`}},
		{"float16 ids", ids(tensor{dtype: typeFloat16, data: []byte{0, 0x3e, 0, 0x3e, 0, 0x3e}}), element, []string{`"t2"`}},
		{"bfloat16 ids", ids(tensor{dtype: typeBFloat, data: []byte{0xc0, 0x3f, 0xc0, 0x3f, 0xc0, 0x3f}}), element, []string{`"t2"`}},
		{"float32 ids", ids(tensor{dtype: typeFloat32, data: floats(nil, 1, 2, 3)}), element, []string{`"t2"`}},
		{"integer features", replace(tensor{"dense", typeInt64, []int64{3, 13}, make([]byte, 8*39)}), element, []string{`"dense"`}},
		{"id beyond the table", ids(tensor{dtype: typeInt64, data: integers(nil, typeInt64, 1, 1000, 2)}), "invalid_id", []string{`"t2"`, "row 1", "1000"}},
		{"id beyond 32 bits", ids(tensor{dtype: typeInt64, data: integers(nil, typeInt64, 1, 2, 8589934593)}), "invalid_id", []string{`"t2"`, "row 2", "8589934593"}},
		{"negative id", ids(tensor{dtype: typeInt32, data: integers(nil, typeInt32, -3, 1, 2)}), "invalid_id", []string{`"t2"`, "row 0", "-3"}},
	}
}

// malformedInfer can be written in the Open Inference Protocol only.
var malformedInfer = []struct {
	name   string
	mold   func(k *kservepb.ModelInferRequest)
	reason string
	words  []string
}{
	{"a raw blob too few", func(k *kservepb.ModelInferRequest) { k.RawInputContents = k.RawInputContents[:4] }, "invalid_contents", []string{"4", "5"}},
	{"a raw blob too many", func(k *kservepb.ModelInferRequest) { k.RawInputContents = append(k.RawInputContents, []byte{1}) }, "invalid_contents", []string{"6", "5"}},
	{"no contents", func(k *kservepb.ModelInferRequest) { k.RawInputContents = nil }, "invalid_size", []string{`"t0"`, "0", "3"}},
	{"raw beside typed", func(k *kservepb.ModelInferRequest) {
		k.Inputs[1].Contents = &kservepb.InferTensorContents{Int64Contents: []int64{1, 2, 3}}
	}, "invalid_contents", []string{`"t1"`}},
	{"some inputs typed, some raw", func(k *kservepb.ModelInferRequest) {
		k.Inputs[0].Contents = &kservepb.InferTensorContents{Int64Contents: []int64{1, 2, 3}}
		k.RawInputContents = k.RawInputContents[1:]
	}, "invalid_contents", []string{`"t0"`}},
	{"datatype BYTES", func(k *kservepb.ModelInferRequest) { k.Inputs[2].Datatype = "BYTES" }, "invalid_dtype", []string{`"t2"`, `"BYTES"`}},
	{"bytes in an INT64 input", func(k *kservepb.ModelInferRequest) {
		typed(k).Inputs[2].Contents = &kservepb.InferTensorContents{BytesContents: [][]byte{{1}, {2}, {3}}}
	}, "invalid_contents", []string{`"t2"`, "bytes_contents", "int64_contents"}},
	{"an element too few", func(k *kservepb.ModelInferRequest) {
		typed(k).Inputs[2].Contents.Int64Contents = []int64{1, 2}
	}, "invalid_size", []string{`"t2"`, "2", "3"}},
	{"an input twice", func(k *kservepb.ModelInferRequest) {
		k.Inputs, k.RawInputContents = append(k.Inputs, k.Inputs[1]), append(k.RawInputContents, k.RawInputContents[1])
	}, "invalid_duplicate_input", []string{`"t1"`}},
	{"datatype in lower case", func(k *kservepb.ModelInferRequest) { k.Inputs[4].Datatype = "fp32" }, "invalid_dtype", []string{`"dense"`, `"fp32"`, "FP32"}},
	{"unknown datatype", func(k *kservepb.ModelInferRequest) { k.Inputs[4].Datatype = "FP33" }, "invalid_dtype", []string{`"dense"`, `"FP33"`}},
	{"empty datatype", func(k *kservepb.ModelInferRequest) { k.Inputs[4].Datatype = "" }, "invalid_dtype", []string{`"dense"`, `""`}},
	{"unknown output", func(k *kservepb.ModelInferRequest) {
		k.Outputs = []*kservepb.ModelInferRequest_InferRequestedOutputTensor{{Name: "scores"}}
	}, "invalid_output_name", []string{`"scores"`, `"score"`}},
}

// malformedPredict can be written for rankd's own service only.
var malformedPredict = []struct {
	name   string
	mold   func(p *rankdpb.PredictRequest)
	reason string
	words  []string
}{
	{"no element type", func(p *rankdpb.PredictRequest) { p.Inputs["dense"].Dtype = 0 }, "invalid_dtype", []string{`"dense"`, "0"}},
	{"unknown element type", func(p *rankdpb.PredictRequest) { p.Inputs["dense"].Dtype = 99 }, "invalid_dtype", []string{`"dense"`, "99"}},
	{"nine dimensions", func(p *rankdpb.PredictRequest) { p.Inputs["dense"].Shape = []int64{3, 13, 1, 1, 1, 1, 1, 1, 1} }, "invalid_shape", []string{"8"}},
	{"unknown output", func(p *rankdpb.PredictRequest) { p.OutputFilter = []string{"scores"} }, "invalid_output_name", []string{`"scores"`, `"score"`}},
	{"no inputs", func(p *rankdpb.PredictRequest) { p.Inputs = nil }, "invalid_missing_input", []string{`"t0"`}},
}

// classroom is a server of the test model with a lane to each frontend, and the pids that must stay.
type classroom struct {
	*server
	exam    *exam
	lanes   []*lane
	pids    []int
	picks   []int
	refused int
	longest time.Duration
}

func newClassroom(t *testing.T, flags ...string) *classroom {
	t.Helper()
	seed, b := seedOf(t), testModel(t)
	s := serve(t, options{model: b.Dir, flags: append([]string{"--executor=sim", "--sim-verify=full", "--frontends=2"}, flags...)})
	c := &classroom{server: s, exam: newExam(t, b, seed, 1024, simulated(t, b.Manifest)), picks: []int{7, 8, 9}}
	c.lanes = flat(s.lanes(2, 1))
	for _, f := range s.frontends() {
		c.pids = append(c.pids, f.PID)
	}
	return c
}

// good is a fresh request of three rows as tensors, all ids int64.
func (c *classroom) good() []tensor {
	list := c.exam.tensors(c.picks, perTable)
	for i := range list[:4] {
		values := []int64{}
		for _, p := range c.picks {
			values = append(values, c.exam.examples[p].ids[i]...)
		}
		list[i].dtype, list[i].data = typeInt64, integers(nil, typeInt64, values...)
	}
	return list
}

// try makes one call over each lane, checks each with want, and wants a good request after it to be scored.
func (c *classroom) try(t *testing.T, call func(ctx context.Context, l *lane) error, want func(err error)) {
	t.Helper()
	for _, l := range c.lanes {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		began := time.Now()
		err := call(ctx, l)
		c.longest = max(c.longest, time.Since(began))
		want(err)
		c.refused++
		if _, err := c.exam.ask(ctx, l, c.picks, perTable, 0); err != nil {
			t.Errorf("a good request after it: %v", err)
		}
		cancel()
	}
}

// wantUnmoved checks that the same frontends serve and that none of them had to recover from a panic.
func (c *classroom) wantUnmoved(t *testing.T) {
	t.Helper()
	var pids []int
	for _, f := range c.frontends() {
		pids = append(pids, f.PID)
	}
	if !slices.Equal(pids, c.pids) {
		t.Errorf("got frontends with pids %v, want the same as before, %v", pids, c.pids)
	}
	if v, there := c.scrape()["rankd_panics_total"]; v != 0 || !there {
		t.Errorf("got %v panics (%v), want 0", v, there)
	}
	c.wantAtRest()
}

func TestMalformedRequestsAreRefusedByNameAndTheSameProcessesServeOn(t *testing.T) {
	c := newClassroom(t)
	before := c.scrape()
	for _, m := range malformedRequests() {
		t.Run("predict/"+m.name, func(t *testing.T) {
			request := c.exam.predictRequest(m.mold(c.good()))
			c.try(t, func(ctx context.Context, l *lane) error { _, err := l.predict.Predict(ctx, request); return err },
				func(err error) { wantRefusal(t, err, codes.InvalidArgument, m.reason, m.words...) })
		})
		t.Run("infer/"+m.name, func(t *testing.T) {
			request := c.exam.inferRequest(m.mold(c.good()))
			c.try(t, func(ctx context.Context, l *lane) error { _, err := l.infer.ModelInfer(ctx, request); return err },
				func(err error) { wantRefusal(t, err, codes.InvalidArgument, m.reason, m.words...) })
		})
	}
	for _, m := range malformedInfer {
		t.Run("infer/"+m.name, func(t *testing.T) {
			request := c.exam.inferRequest(c.good())
			m.mold(request)
			c.try(t, func(ctx context.Context, l *lane) error { _, err := l.infer.ModelInfer(ctx, request); return err },
				func(err error) { wantRefusal(t, err, codes.InvalidArgument, m.reason, m.words...) })
		})
	}
	for _, m := range malformedPredict {
		t.Run("predict/"+m.name, func(t *testing.T) {
			request := c.exam.predictRequest(c.good())
			m.mold(request)
			c.try(t, func(ctx context.Context, l *lane) error { _, err := l.predict.Predict(ctx, request); return err },
				func(err error) { wantRefusal(t, err, codes.InvalidArgument, m.reason, m.words...) })
		})
	}
	after := c.scrape()
	if got := after.sum("rankd_requests_total", `outcome="invalid"`) - before.sum("rankd_requests_total", `outcome="invalid"`); got != float64(c.refused) {
		t.Errorf("got %v refusals counted as invalid, want %d", got, c.refused)
	}
	t.Logf("%d refusals, the longest took %v", c.refused, c.longest)
	if c.longest > 2*time.Second {
		t.Errorf("a refusal took %v, want milliseconds", c.longest)
	}
	c.wantUnmoved(t)
}

func TestOtherModelsAreNotFound(t *testing.T) {
	c := newClassroom(t)
	for name, mold := range map[string]func(p *rankdpb.PredictRequest){
		"name":    func(p *rankdpb.PredictRequest) { p.ModelName = "other" },
		"version": func(p *rankdpb.PredictRequest) { p.ModelVersion = "2" },
		"no name": func(p *rankdpb.PredictRequest) { p.ModelName = "" },
	} {
		request := c.exam.predictRequest(c.good())
		mold(request)
		infer := c.exam.inferRequest(c.good())
		infer.ModelName, infer.ModelVersion = request.ModelName, request.ModelVersion
		t.Run(name, func(t *testing.T) {
			want := func(err error) { wantRefusal(t, err, codes.NotFound, "model_not_found") }
			c.try(t, func(ctx context.Context, l *lane) error { _, err := l.predict.Predict(ctx, request); return err }, want)
			c.try(t, func(ctx context.Context, l *lane) error { _, err := l.infer.ModelInfer(ctx, infer); return err }, want)
		})
	}
	c.wantUnmoved(t)
}

const (
	predictMethod = "/rankd.v1.PredictionService/Predict"
	inferMethod   = "/inference.GRPCInferenceService/ModelInfer"
)

// bytesCodec sends and receives messages as they are.
type bytesCodec struct{}

func (bytesCodec) Marshal(v any) ([]byte, error)      { return v.([]byte), nil }
func (bytesCodec) Unmarshal(data []byte, v any) error { *v.(*[]byte) = slices.Clone(data); return nil }
func (bytesCodec) Name() string                       { return "proto" }

// raw makes a call with a message as bytes.
func (l *lane) raw(ctx context.Context, method string, message []byte, o ...grpc.CallOption) ([]byte, error) {
	var reply []byte
	err := l.conn.Invoke(ctx, method, message, &reply, append(o, grpc.ForceCodec(bytesCodec{}))...)
	return reply, err
}

func TestDamagedMessagesAreRefused(t *testing.T) {
	c := newClassroom(t)
	messages := map[string][]byte{predictMethod: nil, inferMethod: nil}
	var err error
	if messages[predictMethod], err = proto.Marshal(c.exam.predictRequest(c.good())); err != nil {
		t.Fatal(err)
	}
	if messages[inferMethod], err = proto.Marshal(c.exam.inferRequest(c.good())); err != nil {
		t.Fatal(err)
	}
	for method, message := range messages {
		for name, m := range map[string]struct {
			message []byte
			reason  string
		}{
			"cut off":   {message[:len(message)-1], "invalid_protobuf"},
			"noise":     {[]byte{0xff, 0xff, 0xff, 0xff, 0x01, 0x02}, "invalid_protobuf"},
			"twice":     {slices.Concat(message, message), "invalid_duplicate_input"},
			"overlong":  {slices.Concat(message, []byte{0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}), "invalid_protobuf"},
			"bad group": {slices.Concat(message, []byte{0x0b}), "invalid_protobuf"},
		} {
			t.Run(method+"/"+name, func(t *testing.T) {
				c.try(t, func(ctx context.Context, l *lane) error { _, err := l.raw(ctx, method, m.message); return err },
					func(err error) { wantRefusal(t, err, codes.InvalidArgument, m.reason) })
			})
		}
		t.Run(method+"/random damage", func(t *testing.T) { c.damage(t, method, message) })
	}
	c.wantUnmoved(t)
}

// damage sends messages with some bytes changed: any answer is right but a wrong kind of refusal, silence or a dead process.
func (c *classroom) damage(t *testing.T, method string, message []byte) {
	rng := random(seedOf(t), method)
	answers := map[string]int{}
	for n := range 400 {
		m := slices.Clone(message)
		for range 1 + rng.IntN(3) {
			spoil(rng, &m)
		}
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		_, err := c.lanes[n%len(c.lanes)].raw(ctx, method, m)
		cancel()
		reason := reasonOf(err)
		if err != nil && reason == "" || reason == "internal" {
			t.Errorf("got %v (reason %q) for %x, want a named refusal", err, reason, m)
		}
		answers[reason]++
	}
	t.Logf("answers by reason: %v", answers)
}

func spoil(rng *rand.Rand, m *[]byte) {
	at := rng.IntN(len(*m))
	switch rng.IntN(4) {
	case 0:
		(*m)[at] ^= 1 << rng.IntN(8)
	case 1:
		(*m)[at] = 0xff
	case 2:
		*m = slices.Delete(*m, at, min(at+1+rng.IntN(4), len(*m)))
	case 3:
		*m = slices.Insert(*m, at, byte(rng.IntN(256)))
	}
	if len(*m) == 0 {
		*m = []byte{0}
	}
}
