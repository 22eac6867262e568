package frontend

import (
	"context"
	"fmt"
	"math"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"rankd/frontend/wire/kservepb"
	"rankd/frontend/wire/rankdpb"
)

// malformed is a request that both protocols can carry and that must be refused. words must stand in the message: the
// tensor, what came, what was wanted.
type malformed struct {
	name  string
	mold  func(in map[string]*rankdpb.HostBufferProto)
	words []string
}

func tensor(d rankdpb.DType, data []byte, shape ...int64) *rankdpb.HostBufferProto {
	return &rankdpb.HostBufferProto{Dtype: d, Shape: shape, Data: data}
}

const (
	i64  = rankdpb.DType_DTYPE_INT64
	i32  = rankdpb.DType_DTYPE_INT32
	u64  = rankdpb.DType_DTYPE_UINT64
	f32  = rankdpb.DType_DTYPE_FLOAT32
	f16  = rankdpb.DType_DTYPE_FLOAT16
	bf16 = rankdpb.DType_DTYPE_BFLOAT16
)

func malformedRequests() []malformed {
	dense := func(data int, shape ...int64) func(map[string]*rankdpb.HostBufferProto) {
		return func(in map[string]*rankdpb.HostBufferProto) { in["dense"] = tensor(f32, make([]byte, data), shape...) }
	}
	ragged := func(offsets ...int64) func(map[string]*rankdpb.HostBufferProto) {
		return func(in map[string]*rankdpb.HostBufferProto) {
			delete(in, "t1")
			in["t1.values"] = tensor(i64, le64(1, 2, 3, 4, 5, 6), 6)
			in["t1.offsets"] = tensor(i64, le64(offsets...), int64(len(offsets)))
		}
	}
	lengths := func(n ...int32) func(map[string]*rankdpb.HostBufferProto) {
		return func(in map[string]*rankdpb.HostBufferProto) {
			delete(in, "t1")
			in["t1.values"] = tensor(i64, le64(1, 2, 3, 4, 5, 6), 6)
			in["t1.lengths"] = tensor(i32, le32(n...), int64(len(n)))
		}
	}
	ids := func(in *rankdpb.HostBufferProto) func(map[string]*rankdpb.HostBufferProto) {
		return func(all map[string]*rankdpb.HostBufferProto) { all["t2"] = in }
	}
	all := []malformed{
		{"dense one byte short", dense(103, 2, 13), []string{`"dense"`, "103", "104"}},
		{"dense one byte more", dense(105, 2, 13), []string{`"dense"`, "105", "104"}},
		{"dense without bytes", dense(0, 2, 13), []string{`"dense"`, "0", "104"}},
		{"missing input", func(in map[string]*rankdpb.HostBufferProto) { delete(in, "t3") }, []string{`"t3"`}},
		{"unknown input", func(in map[string]*rankdpb.HostBufferProto) { in["t9"] = in["t3"] }, []string{`"t9"`, `"t3"`}},
		{"two forms of one table", func(in map[string]*rankdpb.HostBufferProto) { in["t1.values"] = tensor(i64, le64(1), 1) }, []string{`t1`}},
		{"negative batch", dense(0, -1, 13), []string{`"dense"`, "[-1,13]"}},
		{"no rows", dense(0, 0, 13), []string{`"dense"`, "[0,13]"}},
		{"negative width", dense(0, 2, -13), []string{`"dense"`, "[2,-13]"}},
		{"flat", dense(104, 26), []string{`"dense"`, "[26]", "13"}},
		{"narrow", dense(96, 2, 12), []string{`"dense"`, "[2,12]", "13"}},
		{"three dimensions", dense(104, 2, 13, 1), []string{`"dense"`, "[2,13,1]"}},
		{"byte count wraps to 0", dense(0, 4611686018427387904, 13), []string{`"dense"`, "4611686018427387904"}},
		{"element count wraps to 0", dense(0, 4294967296, 4294967296), []string{`"dense"`, "4294967296"}},
		{"offsets begin above 0", ragged(1, 2, 4), []string{"t1.offsets"}},
		{"offsets fall", ragged(0, 5, 3), []string{"t1.offsets"}},
		{"offsets end beyond the ids", ragged(0, 2, 7), []string{"t1.offsets", "7", "6"}},
		{"offsets go negative", ragged(0, -2, 6), []string{"t1.offsets", "-2"}},
		{"offset of 2^40", ragged(0, 1<<40, 6), []string{"t1.offsets"}},
		{"offsets of three rows for two", ragged(0, 2, 4, 6), []string{"t1.offsets"}},
		{"lengths beyond the ids", lengths(4, 3), []string{"t1.lengths", "3", "6"}},
		{"length of 2^31-1", lengths(math.MaxInt32, 1), []string{"t1", "6"}},
		{"three lengths for two rows", lengths(2, 2, 2), []string{"t1.lengths"}},
		{"int32 bytes declared int64", ids(tensor(i64, le32(1, 2), 2, 1)), []string{`"t2"`, "8", "16"}},
		{"uint64 ids", ids(tensor(u64, le64(-1, 1), 2, 1)), []string{`"t2"`}},
		{"float16 ids", ids(tensor(f16, []byte{0, 0x3e, 0, 0x3e}, 2, 1)), []string{`"t2"`}},
		{"bfloat16 ids", ids(tensor(bf16, []byte{0xc0, 0x3f, 0xc0, 0x3f}, 2, 1)), []string{`"t2"`}},
		{"id beyond the table", ids(tensor(i64, le64(1, 1000), 2, 1)), []string{"t2", "1000"}},
		{"negative id", ids(tensor(i64, le64(1, -3), 2, 1)), []string{"t2", "-3"}},
	}
	return all
}

func TestMalformedRequestsAreRefusedOnBothProtocolsAndServingGoesOn(t *testing.T) {
	s := newServed(t, testConfig())
	s.device(t, 100)
	good := func(t *testing.T) {
		reply, err := s.predict.Predict(background(t), predictOf(8, 9))
		if err != nil {
			t.Fatalf("a good request after it: %v", err)
		}
		wantScores(t, floats(reply.Outputs["score"].Data), []int64{8, 9})
	}
	for _, m := range malformedRequests() {
		p := predictOf(8, 9)
		m.mold(p.Inputs)
		t.Run("predict/"+m.name, func(t *testing.T) {
			_, err := s.predict.Predict(background(t), p)
			wantRefusal(t, err, m.words)
			good(t)
		})
		t.Run("infer/"+m.name, func(t *testing.T) {
			_, err := s.infer.ModelInfer(background(t), toInfer(p))
			wantRefusal(t, err, m.words)
			good(t)
		})
	}
	if n := s.ring.committedRows(); n != 2*2*len(malformedRequests()) {
		t.Errorf("%d rows were committed, want those of the good requests only", n)
	}
	s.restored(t)
}

func wantRefusal(t *testing.T, err error, words []string) {
	t.Helper()
	st := status.Convert(err)
	if st.Code() != codes.InvalidArgument || len(reasonOf(err)) < 9 || reasonOf(err)[:8] != "invalid_" {
		t.Fatalf("got %v (reason %q), want INVALID_ARGUMENT with invalid_<what>", err, reasonOf(err))
	}
	for _, w := range words {
		if !contains(st.Message(), w) {
			t.Errorf("message %q does not say %q", st.Message(), w)
		}
	}
}

func TestMalformedInferRequestsAreRefused(t *testing.T) {
	s := newServed(t, testConfig())
	s.device(t, 100)
	find := func(k *kservepb.ModelInferRequest, name string) int {
		for i, in := range k.Inputs {
			if in.Name == name {
				return i
			}
		}
		panic(fmt.Sprintf("no input %q", name))
	}
	cases := []struct {
		name  string
		mold  func(k *kservepb.ModelInferRequest)
		words []string
	}{
		{"a raw blob too few", func(k *kservepb.ModelInferRequest) { k.RawInputContents = k.RawInputContents[:4] }, []string{"4", "5"}},
		{"a raw blob too many", func(k *kservepb.ModelInferRequest) { k.RawInputContents = append(k.RawInputContents, []byte{1}) }, []string{"6", "5"}},
		{"no contents at all", func(k *kservepb.ModelInferRequest) { k.RawInputContents = nil }, nil},
		{"raw beside typed", func(k *kservepb.ModelInferRequest) {
			k.Inputs[find(k, "t1")].Contents = &kservepb.InferTensorContents{Int64Contents: []int64{1, 2}}
		}, []string{`"t1"`}},
		{"bytes where int64 is declared", func(k *kservepb.ModelInferRequest) {
			k.RawInputContents = nil
			k.Inputs = k.Inputs[find(k, "t1") : find(k, "t1")+1]
			k.Inputs[0].Contents = &kservepb.InferTensorContents{BytesContents: [][]byte{{1}, {2}}}
		}, []string{`"t1"`}},
		{"an input twice", func(k *kservepb.ModelInferRequest) {
			i := find(k, "t1")
			k.Inputs, k.RawInputContents = append(k.Inputs, k.Inputs[i]), append(k.RawInputContents, k.RawInputContents[i])
		}, []string{`"t1"`}},
		{"datatype in lower case", func(k *kservepb.ModelInferRequest) { k.Inputs[find(k, "dense")].Datatype = "fp32" }, []string{`"dense"`, `"fp32"`}},
		{"unknown datatype", func(k *kservepb.ModelInferRequest) { k.Inputs[find(k, "dense")].Datatype = "FP33" }, []string{`"dense"`, `"FP33"`}},
		{"empty datatype", func(k *kservepb.ModelInferRequest) { k.Inputs[find(k, "dense")].Datatype = "" }, []string{`"dense"`}},
		{"unknown output", func(k *kservepb.ModelInferRequest) {
			k.Outputs = []*kservepb.ModelInferRequest_InferRequestedOutputTensor{{Name: "nope"}}
		}, []string{`"nope"`, `"score"`}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			k := inferOf(8, 9)
			c.mold(k)
			_, err := s.infer.ModelInfer(background(t), k)
			wantRefusal(t, err, c.words)
			if _, err := s.infer.ModelInfer(background(t), inferOf(1)); err != nil {
				t.Errorf("a good request after it: %v", err)
			}
		})
	}
}

func TestNarrowIDsAndDenseTypesAreConverted(t *testing.T) {
	s := newServed(t, testConfig())
	s.device(t, 100)
	p := predictOf(8, 9)
	p.Inputs["t0"] = tensor(i32, le32(8, 9), 2, 1)
	p.Inputs["dense"] = tensor(f16, make([]byte, 52), 2, 13)
	p.Inputs["t3"] = tensor(i64, le64(8), 1, 1) // one row for both
	reply, err := s.predict.Predict(context.Background(), p)
	if err != nil {
		t.Fatal(err)
	}
	got := floats(reply.Outputs["score"].Data)
	if got[0] != fakeScore(8) || got[1] != 9*(1+2+3)+8*4 {
		t.Errorf("got %v", got)
	}
}

func TestTypedContentsAreScored(t *testing.T) {
	s := newServed(t, testConfig())
	s.device(t, 100)
	k := inferOf(8, 9)
	k.RawInputContents = nil
	for _, in := range k.Inputs {
		if in.Name == "dense" {
			in.Contents = &kservepb.InferTensorContents{Fp32Contents: make([]float32, 26)}
		} else {
			in.Contents = &kservepb.InferTensorContents{Int64Contents: []int64{8, 9}}
		}
	}
	reply, err := s.infer.ModelInfer(background(t), k)
	if err != nil {
		t.Fatal(err)
	}
	wantScores(t, floats(reply.RawOutputContents[0]), []int64{8, 9})
}
