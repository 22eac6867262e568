package wire

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"rankd/frontend/wire/kservepb"
	"rankd/frontend/wire/rankdpb"
	"rankd/internal/dtype"
)

// compare decodes b with the decoder and with the reference: both accept it and agree, or both refuse it. The message
// lies in the middle of a larger buffer, so that a view beyond it shows.
func compare(t *testing.T, r *Request, b []byte, decode func(*Request, []byte) error, ref func([]byte) (*reference, error)) (accepted bool) {
	t.Helper()
	outer := slices.Concat([]byte("before"), b, []byte("after"))
	message := outer[len("before") : len(outer)-len("after")]
	r.Reset()
	err := decode(r, message)
	want, wantErr := ref(b)
	if !bytes.Equal(outer, slices.Concat([]byte("before"), b, []byte("after"))) {
		t.Fatal("the message was written to")
	}
	if (err == nil) != (wantErr == nil) {
		t.Fatalf("decode %x: got error %v, the reference %v", b, err, wantErr)
	}
	if err != nil {
		if e, ok := err.(*Error); !ok || e.Reason == "" || len(e.Msg) > 2048 {
			t.Fatalf("got error %#v, want an *Error with a reason and a short message", err)
		}
		return false
	}
	if string(r.Model) != want.model || string(r.Version) != want.version || string(r.ID) != want.id {
		t.Fatalf("got %q %q %q, want %+v", r.Model, r.Version, r.ID, want)
	}
	if len(r.Inputs) != len(want.inputs) || len(r.Outputs) != len(want.outputs) {
		t.Fatalf("got %d inputs, %d outputs, want %d and %d", len(r.Inputs), len(r.Outputs), len(want.inputs), len(want.outputs))
	}
	for i, o := range r.Outputs {
		if string(o) != want.outputs[i] {
			t.Fatalf("output %d: got %q, want %q", i, o, want.outputs[i])
		}
	}
	for i := range r.Inputs {
		got, w := &r.Inputs[i], &want.inputs[i]
		if string(got.Name) != w.name || got.DType != w.dtype || !slices.Equal(got.Shape, w.shape) || !bytes.Equal(got.Data, w.data) {
			t.Fatalf("input %d: got %+v, want %+v", i, got, w)
		}
		if !within(got.Data, message) && !within(got.Data, r.arena[:cap(r.arena)]) && len(got.Data) > 0 && len(r.Inputs) == 1 {
			t.Fatalf("input %d: its data lies neither in the message nor in the arena", i)
		}
	}
	return true
}

// within reports whether part lies in whole.
func within(part, whole []byte) bool {
	p, w := uintptr(unsafe.Pointer(unsafe.SliceData(part))), uintptr(unsafe.Pointer(unsafe.SliceData(whole)))
	return p >= w && p+uintptr(len(part)) <= w+uintptr(len(whole))
}

func comparePredict(t *testing.T, r *Request, b []byte) bool {
	return compare(t, r, b, (*Request).DecodePredict, refPredict)
}

func compareInfer(t *testing.T, r *Request, b []byte) bool {
	return compare(t, r, b, (*Request).DecodeModelInfer, refInfer)
}

type rng struct{ *rand.Rand }

func newRNG(seed uint64) rng { return rng{rand.New(rand.NewPCG(seed, 1))} }

func (g rng) text() string { return string([]rune("aé∂b.values0")[:g.IntN(12)]) }

func (g rng) shape() (shape []int64, n int) {
	n = 1
	for range g.IntN(4) {
		d := g.IntN(5)
		shape, n = append(shape, int64(d)), n*d
	}
	return shape, n
}

func (g rng) raw(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(g.Uint32())
	}
	return b
}

func (g rng) predict() *rankdpb.PredictRequest {
	m := &rankdpb.PredictRequest{ModelName: g.text(), ModelVersion: g.text(), RequestId: g.text(), Inputs: map[string]*rankdpb.HostBufferProto{}}
	for range g.IntN(4) {
		d := dtype.DType(1 + g.IntN(int(dtype.Float64)))
		shape, n := g.shape()
		m.Inputs[g.text()] = &rankdpb.HostBufferProto{Dtype: rankdpb.DType(d), Shape: shape, Data: g.raw(n * d.Size())}
	}
	for range g.IntN(3) {
		m.OutputFilter = append(m.OutputFilter, g.text())
	}
	return m
}

func (g rng) infer(typed bool) *kservepb.ModelInferRequest {
	parameters := map[string]*kservepb.InferParameter{g.text(): {ParameterChoice: &kservepb.InferParameter_StringParam{StringParam: g.text()}}}
	m := &kservepb.ModelInferRequest{ModelName: g.text(), ModelVersion: g.text(), Id: g.text(), Parameters: parameters}
	for range g.IntN(4) {
		d := dtype.DType(1 + g.IntN(int(dtype.Float64)))
		for typed && (d == dtype.Float16 || d == dtype.BFloat16) {
			d = dtype.DType(1 + g.IntN(int(dtype.Float64)))
		}
		shape, n := g.shape()
		in := &kservepb.ModelInferRequest_InferInputTensor{Name: g.text(), Datatype: Datatype(d), Shape: shape, Parameters: parameters}
		if typed {
			in.Contents = g.contents(d, n)
		} else {
			m.RawInputContents = append(m.RawInputContents, g.raw(n*d.Size()))
		}
		m.Inputs = append(m.Inputs, in)
	}
	for range g.IntN(3) {
		m.Outputs = append(m.Outputs, &kservepb.ModelInferRequest_InferRequestedOutputTensor{Name: g.text(), Parameters: parameters})
	}
	return m
}

// contents is n elements that fit d.
func (g rng) contents(d dtype.DType, n int) *kservepb.InferTensorContents {
	c := &kservepb.InferTensorContents{}
	for range n {
		v := g.Uint64() >> g.IntN(64)
		switch d {
		case dtype.Bool:
			c.BoolContents = append(c.BoolContents, v%2 == 0)
		case dtype.Int8:
			c.IntContents = append(c.IntContents, int32(int8(v)))
		case dtype.Int16:
			c.IntContents = append(c.IntContents, int32(int16(v)))
		case dtype.Int32:
			c.IntContents = append(c.IntContents, int32(v))
		case dtype.Int64:
			c.Int64Contents = append(c.Int64Contents, int64(v))
		case dtype.Uint8:
			c.UintContents = append(c.UintContents, uint32(uint8(v)))
		case dtype.Uint16:
			c.UintContents = append(c.UintContents, uint32(uint16(v)))
		case dtype.Uint32:
			c.UintContents = append(c.UintContents, uint32(v))
		case dtype.Uint64:
			c.Uint64Contents = append(c.Uint64Contents, v)
		case dtype.Float32:
			c.Fp32Contents = append(c.Fp32Contents, math.Float32frombits(uint32(v)))
		case dtype.Float64:
			c.Fp64Contents = append(c.Fp64Contents, math.Float64frombits(v))
		}
	}
	return c
}

func marshal(t testing.TB, m proto.Message) []byte {
	t.Helper()
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// mutate damages a message: bytes changed, dropped and doubled, pieces of another message put in.
func (g rng) mutate(b, other []byte) []byte {
	b = slices.Clone(b)
	for range 1 + g.IntN(3) {
		if len(b) == 0 {
			return b
		}
		at := g.IntN(len(b))
		switch g.IntN(6) {
		case 0:
			b[at] = byte(g.Uint32())
		case 1:
			b[at] ^= 1 << g.IntN(8)
		case 2:
			b = b[:at]
		case 3:
			b = slices.Delete(b, at, min(len(b), at+1+g.IntN(4)))
		case 4:
			b = append(b, b[at:]...)
		case 5:
			b = append(b, other...) // two messages after each other are one, merged
		}
	}
	return b
}

func TestDecodersAgreeWithGeneratedCode(t *testing.T) {
	const rounds = 4000
	var r Request
	g := newRNG(7)
	accepted := map[string]int{}
	for i := range rounds {
		p, q := marshal(t, g.predict()), marshal(t, g.predict())
		typed := i%2 == 0
		in, jn := marshal(t, g.infer(typed)), marshal(t, g.infer(typed))
		if !comparePredict(t, &r, p) || !compareInfer(t, &r, in) {
			t.Fatalf("I4: round %d: a well-formed request was refused", i)
		}
		for name, ok := range map[string]bool{
			"predict": comparePredict(t, &r, g.mutate(p, q)),
			"infer":   compareInfer(t, &r, g.mutate(in, jn)),
		} {
			if ok {
				accepted[name]++
			}
		}
	}
	for _, name := range []string{"predict", "infer"} { // else the mutations test only one side
		if n := accepted[name]; n < rounds/20 || n > rounds*19/20 {
			t.Errorf("%s: %d of %d damaged messages were accepted, want some of both", name, n, rounds)
		}
	}
}

// TestPiecesAreMerged builds by hand what marshallers do not write: split sub-messages, fields twice, elements packed and
// not packed in one tensor, an entry without key or value.
func TestPiecesAreMerged(t *testing.T) {
	field := func(num protowire.Number, body ...[]byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, num, protowire.BytesType), slices.Concat(body...))
	}
	varint := func(num protowire.Number, v uint64) []byte {
		return protowire.AppendVarint(protowire.AppendTag(nil, num, protowire.VarintType), v)
	}
	fixed32 := func(num protowire.Number, v uint32) []byte {
		return protowire.AppendFixed32(protowire.AppendTag(nil, num, protowire.Fixed32Type), v)
	}
	text := func(num protowire.Number, s string) []byte { return field(num, []byte(s)) }
	var r Request
	for name, c := range map[string]struct {
		body  []byte
		infer bool
		ok    bool
	}{
		"value in two pieces":  {field(4, text(1, "x"), field(2, varint(1, 12), varint(2, 1)), field(2, varint(2, 2), text(3, "12345678"))), false, true},
		"dtype and data twice": {field(4, text(1, "x"), field(2, varint(1, 3), text(3, "1"), varint(1, 2), varint(2, 4), text(3, "1234"))), false, true},
		"key twice":            {field(4, text(1, "x"), text(1, "y"), field(2, varint(1, 1), text(3, "1"))), false, true},
		"value before key":     {field(4, field(2, varint(1, 1), text(3, "1")), text(1, "y")), false, true},
		"no key":               {field(4, field(2, varint(1, 1), text(3, "1"))), false, true},
		"no value":             {field(4, text(1, "x")), false, false},
		"dtype of 33 bits":     {field(4, text(1, "x"), field(2, varint(1, 1<<32+1), text(3, "1"))), false, true},
		"negative dtype":       {field(4, text(1, "x"), field(2, varint(1, math.MaxUint64), text(3, "1"))), false, false},
		"dtype as bytes":       {field(4, text(1, "x"), field(2, text(1, "1"), text(3, "1"))), false, false},
		"group":                {[]byte{0x0b, 0x0c}, false, false},
		"unknown group":        {[]byte{0xfb, 0x06, 0xfc, 0x06}, false, false},
		"field 2^29":           {[]byte{0x80, 0x80, 0x80, 0x80, 0x10, 0x00}, false, false},
		"field 2^29-1":         {[]byte{0xf8, 0xff, 0xff, 0xff, 0x0f, 0x00}, false, true},
		"field 0":              {[]byte{0x02, 0x00}, false, false},
		"wire type 6":          {[]byte{0x0e, 0x00}, false, false},
		"bad UTF-8":            {text(1, "\xff"), false, false},
		"unknown fields":       {slices.Concat(varint(99, 1), fixed32(98, 1), text(97, "x")), false, true},
		"model twice":          {slices.Concat(text(1, "a"), text(1, "b")), true, true},
		"contents in pieces": {
			field(5, text(1, "x"), field(5, varint(3, 7), text(3, "\x08")), varint(3, 3), text(2, "INT64"), field(5, varint(3, math.MaxUint64))), true, true,
		},
		"floats in pieces":     {field(5, text(2, "FP32"), varint(3, 2), field(5, fixed32(6, 1)), field(5, text(6, "abcd"))), true, true},
		"floats, one packed":   {field(5, text(2, "FP32"), varint(3, 2), field(5, text(6, "12345678"))), true, true},
		"floats, 5 bytes":      {field(5, text(2, "FP32"), varint(3, 1), field(5, text(6, "12345"))), true, false},
		"doubles packed":       {field(5, text(2, "FP64"), varint(3, 1), field(5, text(7, "12345678"))), true, true},
		"bool of 10 bytes":     {field(5, text(2, "BOOL"), varint(3, 1), field(5, text(1, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"))), true, true},
		"varint of 11 bytes":   {field(5, text(2, "BOOL"), varint(3, 1), field(5, text(1, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"))), true, false},
		"varint cut":           {field(5, text(2, "INT64"), varint(3, 1), field(5, text(3, "\x01\xff"))), true, false},
		"varint cut elsewhere": {field(5, text(2, "INT64"), varint(3, 1), field(5, varint(3, 1), text(2, "\xff"))), true, false},
		"int32 of 64 bits":     {field(5, text(2, "INT32"), varint(3, 1), field(5, varint(2, 1<<40+5))), true, true},
		"int8 300":             {field(5, text(2, "INT8"), varint(3, 1), field(5, varint(2, 300))), true, false},
		"int8 -128":            {field(5, text(2, "INT8"), varint(3, 1), field(5, varint(2, math.MaxUint64-127))), true, true},
		"uint16 65536":         {field(5, text(2, "UINT16"), varint(3, 1), field(5, varint(4, 65536))), true, false},
		"empty packed beside":  {field(5, text(2, "INT64"), varint(3, 1), field(5, varint(3, 1), text(4, ""))), true, true},
		"float as varint":      {field(5, text(2, "FP32"), varint(3, 1), field(5, varint(6, 1))), true, false},
		"raw, empty contents":  {slices.Concat(field(5, text(2, "INT8"), varint(3, 1), field(5)), text(7, "1")), true, true},
		"scalar":               {slices.Concat(field(5, text(2, "INT8")), text(7, "1")), true, true},
		"eight dimensions":     {slices.Concat(field(5, text(2, "INT8"), text(3, "\x01\x01\x01\x01\x01\x01\x01\x01")), text(7, "1")), true, true},
		"nine dimensions":      {slices.Concat(field(5, text(2, "INT8"), text(3, "\x01\x01\x01\x01\x01\x01\x01\x01\x01")), text(7, "1")), true, false},
		"bad parameters":       {slices.Concat(text(4, "\xff\xff"), field(5, text(2, "INT8"), text(4, "\xff")), text(7, "1")), true, true},
		"parameters, varint":   {varint(4, 1), true, false},
	} {
		t.Run("I4/"+name, func(t *testing.T) {
			got := false
			if c.infer {
				got = compareInfer(t, &r, c.body)
			} else {
				got = comparePredict(t, &r, c.body)
			}
			if got != c.ok {
				t.Errorf("accepted: got %v, want %v", got, c.ok)
			}
		})
	}
}

func FuzzDecodePredict(f *testing.F) {
	g := newRNG(1)
	for range 20 {
		f.Add(marshal(f, g.predict()))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var r Request
		comparePredict(t, &r, b)
	})
}

func FuzzDecodeModelInfer(f *testing.F) {
	g := newRNG(2)
	for i := range 40 {
		f.Add(marshal(f, g.infer(i%2 == 0)))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var r Request
		compareInfer(t, &r, b)
	})
}

func TestDTypesMatchTheProtos(t *testing.T) {
	for d := dtype.Bool; d.Valid(); d++ {
		want := "DTYPE_" + map[dtype.DType]string{
			dtype.Bool: "BOOL", dtype.Int8: "INT8", dtype.Int16: "INT16", dtype.Int32: "INT32", dtype.Int64: "INT64",
			dtype.Uint8: "UINT8", dtype.Uint16: "UINT16", dtype.Uint32: "UINT32", dtype.Uint64: "UINT64",
			dtype.Float16: "FLOAT16", dtype.BFloat16: "BFLOAT16", dtype.Float32: "FLOAT32", dtype.Float64: "FLOAT64",
		}[d]
		if got := rankdpb.DType_name[int32(d)]; got != want {
			t.Errorf("value %d: got %s, want %s", d, got, want)
		}
		if parseDatatype([]byte(Datatype(d))) != d {
			t.Errorf("%s: datatype %q does not parse back", d, Datatype(d))
		}
	}
	if got, want := len(rankdpb.DType_name), int(dtype.Float64)+1; got != want {
		t.Errorf("got %d names, want %d: %s", got, want, fmt.Sprint(rankdpb.DType_name))
	}
}
