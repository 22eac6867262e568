package wire

import (
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"rankd/frontend/wire/kservepb"
	"rankd/frontend/wire/rankdpb"
)

type inputTensor = kservepb.ModelInferRequest_InferInputTensor

// infer is a request with one input "dense" and the given raw blobs.
func inferRaw(datatype string, shape []int64, raws ...[]byte) *kservepb.ModelInferRequest {
	return &kservepb.ModelInferRequest{
		Inputs:           []*inputTensor{{Name: "dense", Datatype: datatype, Shape: shape}},
		RawInputContents: raws,
	}
}

func inferTyped(datatype string, shape []int64, c *kservepb.InferTensorContents) *kservepb.ModelInferRequest {
	return &kservepb.ModelInferRequest{Inputs: []*inputTensor{{Name: "dense", Datatype: datatype, Shape: shape, Contents: c}}}
}

func predictOne(d rankdpb.DType, shape []int64, data []byte) *rankdpb.PredictRequest {
	return &rankdpb.PredictRequest{Inputs: map[string]*rankdpb.HostBufferProto{"dense": {Dtype: d, Shape: shape, Data: data}}}
}

func refused(t *testing.T, err error, reason, msg string) {
	t.Helper()
	e, ok := err.(*Error)
	if !ok {
		t.Fatalf("got error %v, want an *Error", err)
	}
	if e.Reason != reason || e.Msg != msg {
		t.Errorf("got  %s: %s\nwant %s: %s", e.Reason, e.Msg, reason, msg)
	}
}

func TestShapesAndSizesAreRefusedByBothDecoders(t *testing.T) {
	const huge = int64(4611686018427387904)
	for _, c := range []struct {
		shape  []int64
		data   int
		reason string
		native string // %[1]s: element type in the protocol's words
	}{
		{[]int64{2, 13}, 103, ReasonSize, `decode input "dense": got 103 bytes of data, want 104 for %[1]s [2,13]`},
		{[]int64{2, 13}, 105, ReasonSize, `decode input "dense": got 105 bytes of data, want 104 for %[1]s [2,13]`},
		{[]int64{2, 13}, 0, ReasonSize, `decode input "dense": got 0 bytes of data, want 104 for %[1]s [2,13]`},
		{nil, 0, ReasonSize, `decode input "dense": got 0 bytes of data, want 4 for %[1]s []`},
		{[]int64{0, 13}, 4, ReasonSize, `decode input "dense": got 4 bytes of data, want 0 for %[1]s [0,13]`},
		{[]int64{-1, 13}, 0, ReasonShape, `decode input "dense": shape [-1,13] has a negative dimension, want 0 or more`},
		{[]int64{2, -13}, 104, ReasonShape, `decode input "dense": shape [2,-13] has a negative dimension, want 0 or more`},
		{[]int64{-2, -13}, 104, ReasonShape, `decode input "dense": shape [-2,-13] has a negative dimension, want 0 or more`},
		{[]int64{math.MinInt64, 2}, 0, ReasonShape, `decode input "dense": shape [-9223372036854775808,2] has a negative dimension, want 0 or more`},
		{[]int64{huge, 13}, 0, ReasonShape, `decode input "dense": %[1]s [4611686018427387904,13] is larger than an address space, want at most 9223372036854775807 bytes`},
		{[]int64{huge, 4}, 0, ReasonShape, `decode input "dense": %[1]s [4611686018427387904,4] is larger than an address space, want at most 9223372036854775807 bytes`},
		{[]int64{1 << 32, 1 << 32}, 0, ReasonShape, `decode input "dense": %[1]s [4294967296,4294967296] is larger than an address space, want at most 9223372036854775807 bytes`},
		{[]int64{0, 1 << 32, 1 << 32}, 0, ReasonShape, `decode input "dense": %[1]s [0,4294967296,4294967296] is larger than an address space, want at most 9223372036854775807 bytes`},
		{[]int64{1 << 61}, 0, ReasonShape, `decode input "dense": %[1]s [2305843009213693952] is larger than an address space, want at most 9223372036854775807 bytes`},
		{[]int64{1 << 60}, 0, ReasonSize, `decode input "dense": got 0 bytes of data, want 4611686018427387904 for %[1]s [1152921504606846976]`},
		{[]int64{1, 1, 1, 1, 1, 1, 1, 1, 1}, 4, ReasonShape, `decode request: shape [1,1,1,1,1,1,1,1]... has more than 8 dimensions, want at most 8`},
	} {
		t.Run(fmt.Sprint("I1/", c.shape, c.data), func(t *testing.T) {
			data := make([]byte, c.data)
			var r Request
			err := r.DecodePredict(marshal(t, predictOne(rankdpb.DType_DTYPE_FLOAT32, c.shape, data)))
			refused(t, err, c.reason, strings.ReplaceAll(c.native, "%[1]s", "float32"))
			r.Reset()
			err = r.DecodeModelInfer(marshal(t, inferRaw("FP32", c.shape, data)))
			refused(t, err, c.reason, strings.ReplaceAll(c.native, "%[1]s", "FP32"))
		})
	}
}

func TestContentsAreRefused(t *testing.T) {
	ints := &kservepb.InferTensorContents{Int64Contents: []int64{1, 2}}
	mixed := inferTyped("INT64", []int64{2}, ints)
	mixed.RawInputContents = [][]byte{make([]byte, 16)}
	two := inferRaw("INT64", []int64{1}, make([]byte, 8))
	two.Inputs = append(two.Inputs, &inputTensor{Name: "ids", Datatype: "INT64", Shape: []int64{1}})
	const known = `BOOL, INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64, FP16, BF16, FP32, FP64`
	for name, c := range map[string]struct {
		m      *kservepb.ModelInferRequest
		reason string
		msg    string
	}{
		"fewer raw blobs": {two, ReasonContents, `decode request: got 1 raw_input_contents for 2 inputs, want one for each; the first without is "ids"`},
		"more raw blobs": {
			inferRaw("INT64", []int64{1}, make([]byte, 8), nil), ReasonContents,
			`decode request: got 2 raw_input_contents for 1 inputs, want one for each`,
		},
		"no data at all": {
			inferRaw("INT64", []int64{2}), ReasonSize,
			`decode input "dense": got 0 elements in int64_contents and no raw_input_contents, want 2 for INT64 [2]`,
		},
		"raw beside typed": {mixed, ReasonContents, `decode input "dense": got typed contents beside raw_input_contents, want one of the two in a request`},
		"bytes for INT64": {
			inferTyped("INT64", []int64{2}, &kservepb.InferTensorContents{BytesContents: [][]byte{{1}, {2}}}), ReasonContents,
			`decode input "dense": got elements in bytes_contents, want them in int64_contents for datatype INT64`,
		},
		"int_contents for INT64": {
			inferTyped("INT64", []int64{2}, &kservepb.InferTensorContents{IntContents: []int32{1, 2}}), ReasonContents,
			`decode input "dense": got elements in int_contents, want them in int64_contents for datatype INT64`,
		},
		"too few": {
			inferTyped("INT64", []int64{3}, ints), ReasonSize,
			`decode input "dense": got 2 elements in int64_contents and no raw_input_contents, want 3 for INT64 [3]`,
		},
		"too large a claim": {
			inferTyped("INT64", []int64{1 << 59}, ints), ReasonSize,
			`decode input "dense": got 2 elements in int64_contents and no raw_input_contents, want 576460752303423488 for INT64 [576460752303423488]`,
		},
		"a value too wide": {
			inferTyped("INT8", []int64{1}, &kservepb.InferTensorContents{IntContents: []int32{128}}), ReasonValue,
			`decode input "dense": got 128 in int_contents, want a value that fits INT8`,
		},
		"FP16 typed": {
			inferTyped("FP16", []int64{1}, &kservepb.InferTensorContents{Fp32Contents: []float32{1}}), ReasonContents,
			`decode input "dense": got elements in fp32_contents, want them in raw_input_contents for datatype FP16`,
		},
		"BF16 without data": {inferRaw("BF16", []int64{1}), ReasonContents, `decode input "dense": got no data, want raw_input_contents, the only form of BF16`},
		"BYTES":             {inferRaw("BYTES", []int64{1}, nil), ReasonDType, `decode input "dense": got datatype "BYTES", want one of ` + known},
		"lower case":        {inferRaw("fp32", []int64{1}, nil), ReasonDType, `decode input "dense": got datatype "fp32", want one of ` + known},
		"unknown datatype":  {inferRaw("INT128", []int64{1}, nil), ReasonDType, `decode input "dense": got datatype "INT128", want one of ` + known},
		"empty datatype":    {inferRaw("", []int64{1}, nil), ReasonDType, `decode input "dense": got datatype "", want one of ` + known},
		"int32 sent as INT64": {
			inferRaw("INT64", []int64{2}, make([]byte, 8)), ReasonSize, `decode input "dense": got 8 bytes of data, want 16 for INT64 [2]`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var r Request
			refused(t, r.DecodeModelInfer(marshal(t, c.m)), c.reason, c.msg)
		})
	}
}

func TestDTypesOfTheNativeCallAreRefused(t *testing.T) {
	for d, got := range map[rankdpb.DType]string{0: "0", 14: "14", -1: "-1", 268: "268"} {
		var r Request
		refused(t, r.DecodePredict(marshal(t, predictOne(d, []int64{1}, make([]byte, 4)))), ReasonDType,
			`decode input "dense": got dtype `+got+`, want one of 1 (bool) to 13 (float64)`)
	}
}

func TestLimits(t *testing.T) {
	long := strings.Repeat("n", MaxName+1)
	var r Request
	refused(t, r.DecodePredict(marshal(t, &rankdpb.PredictRequest{ModelName: long})), ReasonName,
		`decode PredictRequest: model_name "`+long[:64]+`"... is 513 bytes long, want at most 512`)
	r.Reset()
	refused(t, r.DecodeModelInfer(marshal(t, &kservepb.ModelInferRequest{Id: strings.Repeat("i", MaxID+1)})), ReasonName,
		`decode ModelInferRequest: id "`+strings.Repeat("i", 64)+`"... is 1025 bytes long, want at most 1024`)
	r.Reset()
	many := &kservepb.ModelInferRequest{RawInputContents: make([][]byte, MaxTensors+1)}
	refused(t, r.DecodeModelInfer(marshal(t, many)), ReasonCount,
		`decode request: got more than 16384 raw_input_contents, want at most 16384`)
	many = &kservepb.ModelInferRequest{}
	for range MaxTensors + 1 {
		many.Inputs = append(many.Inputs, &inputTensor{Datatype: "INT8"})
		many.Outputs = append(many.Outputs, &kservepb.ModelInferRequest_InferRequestedOutputTensor{})
	}
	r.Reset()
	refused(t, r.DecodeModelInfer(marshal(t, many)), ReasonCount, `decode request: got more than 16384 inputs, want at most 16384`)
	many.Inputs = nil
	r.Reset()
	refused(t, r.DecodeModelInfer(marshal(t, many)), ReasonCount, `decode request: got more than 16384 requested outputs, want at most 16384`)
}

func TestMalformedMessagesSayWhere(t *testing.T) {
	var r Request
	b := marshal(t, &rankdpb.PredictRequest{ModelName: "m", ModelVersion: "1"})
	refused(t, r.DecodePredict(b[:len(b)-1]), ReasonProtobuf, "decode PredictRequest: byte 3 of 5: unexpected EOF")
	r.Reset()
	refused(t, r.DecodePredict([]byte{0x0b, 0x0c}), ReasonProtobuf, "decode PredictRequest: byte 0 of 2: it holds a group")
	r.Reset()
	refused(t, r.DecodePredict([]byte{0x08, 0x01}), ReasonProtobuf, "decode PredictRequest: field model_name has wire type varint, want bytes")
}

// dlrm is a request of 26 tables and dense features, as both protocols carry it.
func dlrm(t testing.TB, rows int64) (native, raw, typed []byte) {
	p := &rankdpb.PredictRequest{ModelName: "dlrm", ModelVersion: "1", Inputs: map[string]*rankdpb.HostBufferProto{}}
	k := &kservepb.ModelInferRequest{ModelName: "dlrm", ModelVersion: "1", Id: "7"}
	c := &kservepb.ModelInferRequest{ModelName: "dlrm", ModelVersion: "1", Id: "7"}
	for i := range 26 {
		name, shape, data := fmt.Sprintf("C%d", i), []int64{rows, 8}, make([]byte, rows*8*8)
		p.Inputs[name] = &rankdpb.HostBufferProto{Dtype: rankdpb.DType_DTYPE_INT64, Shape: shape, Data: data}
		k.Inputs = append(k.Inputs, &inputTensor{Name: name, Datatype: "INT64", Shape: shape})
		k.RawInputContents = append(k.RawInputContents, data)
		c.Inputs = append(c.Inputs, &inputTensor{
			Name: name, Datatype: "INT64", Shape: shape,
			Contents: &kservepb.InferTensorContents{Int64Contents: make([]int64, rows*8)},
		})
	}
	return marshal(t, p), marshal(t, k), marshal(t, c)
}

func TestDecodingAllocatesNothing(t *testing.T) {
	native, raw, typed := dlrm(t, 4)
	for name, decode := range map[string]func(*Request) error{
		"native": func(r *Request) error { return r.DecodePredict(native) },
		"raw":    func(r *Request) error { return r.DecodeModelInfer(raw) },
		"typed":  func(r *Request) error { return r.DecodeModelInfer(typed) },
	} {
		t.Run("I3/"+name, func(t *testing.T) {
			var r Request
			if n := testing.AllocsPerRun(100, func() {
				r.Reset()
				if err := decode(&r); err != nil {
					t.Fatal(err)
				}
			}); n != 0 {
				t.Errorf("got %v allocations, want 0", n)
			}
			if len(r.Inputs) != 26 {
				t.Errorf("got %d inputs, want 26", len(r.Inputs))
			}
		})
	}
}

// TestClaimsCostNothing sends the messages that claim most and hold least.
func TestClaimsCostNothing(t *testing.T) {
	messages := [][]byte{
		marshal(t, inferRaw("INT64", []int64{1 << 40}, nil)),
		marshal(t, inferTyped("INT64", []int64{1 << 40}, &kservepb.InferTensorContents{Int64Contents: []int64{1}})),
		marshal(t, inferTyped("FP64", []int64{1 << 30, 1 << 30}, nil)),
		{0x3a, 0xff, 0xff, 0xff, 0xff, 0x07}, // a raw blob of 2 GiB that is not there
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for _, m := range messages {
		var r Request
		if err := r.DecodeModelInfer(m); err == nil {
			t.Errorf("%x: was accepted", m)
		}
	}
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 64<<10 {
		t.Errorf("I2: %d bytes were allocated for %d refusals, want at most 64 KiB", grown, len(messages))
	}
}

// TestManyPiecesTakeLinearTime doubles messages of many small pieces; quadratic decoders take four times as long.
func TestManyPiecesTakeLinearTime(t *testing.T) {
	const n = 1 << 18
	pieces := []byte{0x12, 0x05, 'I', 'N', 'T', '6', '4', 0x18, 0x80, 0x80, 0x10} // datatype, shape [n]
	for range n {
		pieces = append(pieces, 0x2a, 0x02, 0x18, 0x01) // contents with one element
	}
	message := append([]byte{0x2a, byte(len(pieces)&0x7f) | 0x80, byte(len(pieces)>>7&0x7f) | 0x80, byte(len(pieces) >> 14)}, pieces...)
	var r Request
	start := time.Now()
	if err := r.DecodeModelInfer(message); err != nil {
		t.Fatal(err)
	}
	if len(r.Inputs[0].Data) != 8*n {
		t.Errorf("got %d bytes, want %d", len(r.Inputs[0].Data), 8*n)
	}
	if took := time.Since(start); took > 2*time.Second { // about 10 ms where it is linear
		t.Errorf("I5: %d pieces took %v", n, took)
	}
	r.Reset()
	if cap(r.arena) > keepArena {
		t.Errorf("Reset kept an arena of %d bytes, want at most %d", cap(r.arena), keepArena)
	}
}

func TestResetLetsGo(t *testing.T) {
	native, _, _ := dlrm(t, 1)
	var r Request
	if err := r.DecodePredict(native); err != nil {
		t.Fatal(err)
	}
	r.Reset()
	for _, in := range r.Inputs[:cap(r.Inputs)] {
		if in.Data != nil || in.Name != nil {
			t.Fatal("the message is still referred to")
		}
	}
	if r.Model != nil || len(r.Inputs) != 0 {
		t.Error("the request is not empty")
	}
}

func BenchmarkDecode(b *testing.B) {
	native, raw, typed := dlrm(b, 1)
	for name, decode := range map[string]func(*Request) error{
		"native": func(r *Request) error { return r.DecodePredict(native) },
		"raw":    func(r *Request) error { return r.DecodeModelInfer(raw) },
		"typed":  func(r *Request) error { return r.DecodeModelInfer(typed) },
	} {
		b.Run(name, func(b *testing.B) {
			var r Request
			b.ReportAllocs()
			for b.Loop() {
				r.Reset()
				if err := decode(&r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	// The baseline: what the generated code takes for the same message.
	b.Run("native/generated", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := refPredictPlain(native); err != nil {
				b.Fatal(err)
			}
		}
	})
}
