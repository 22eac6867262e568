package e2e

import (
	"encoding/binary"
	"fmt"
	"math"

	"rankd/frontend/wire/kservepb"
	"rankd/frontend/wire/rankdpb"
)

// tensor is an input in the form that both protocols share.
type tensor struct {
	name  string
	dtype rankdpb.DType
	shape []int64
	data  []byte
}

const (
	typeInt32   = rankdpb.DType_DTYPE_INT32
	typeInt64   = rankdpb.DType_DTYPE_INT64
	typeUint64  = rankdpb.DType_DTYPE_UINT64
	typeFloat16 = rankdpb.DType_DTYPE_FLOAT16
	typeBFloat  = rankdpb.DType_DTYPE_BFLOAT16
	typeFloat32 = rankdpb.DType_DTYPE_FLOAT32
	typeFloat64 = rankdpb.DType_DTYPE_FLOAT64
)

// datatypes are the names of the types in the Open Inference Protocol.
var datatypes = map[rankdpb.DType]string{
	typeInt32: "INT32", typeInt64: "INT64", typeUint64: "UINT64", typeFloat16: "FP16", typeBFloat: "BF16", typeFloat32: "FP32", typeFloat64: "FP64",
}

// form is how a request brings its ids.
type form int

const (
	packedInt64 form = iota // one tensor for all tables
	packedInt32
	perTable // a tensor a table, of both widths
	ragged   // values with lengths or with offsets
	forms
)

// tensors are the inputs of a request for the examples picked.
func (e *exam) tensors(picks []int, f form) []tensor {
	var list []tensor
	switch f {
	case packedInt64, packedInt32:
		list = append(list, e.packed(picks, f))
	default:
		for i := range e.m.Tables {
			list = append(list, e.table(picks, f, i)...)
		}
	}
	dense := tensor{name: "dense", dtype: typeFloat32, shape: []int64{int64(len(picks)), int64(e.m.Dense[0].Width)}}
	for _, p := range picks {
		dense.data = floats(dense.data, e.examples[p].dense...)
	}
	return append(list, dense)
}

func (e *exam) packed(picks []int, f form) tensor {
	in := tensor{name: "ids", dtype: typeInt64}
	if f == packedInt32 {
		in.dtype = typeInt32
	}
	columns := 0
	for i := range e.m.Tables {
		columns += e.m.Tables[i].Hotness
	}
	for _, p := range picks {
		for _, ids := range e.examples[p].ids {
			in.data = integers(in.data, in.dtype, ids...)
		}
	}
	in.shape = []int64{int64(len(picks)), int64(columns)}
	return in
}

func (e *exam) table(picks []int, f form, i int) []tensor {
	t := &e.m.Tables[i]
	values := tensor{name: t.Name, dtype: typeInt64, shape: []int64{int64(len(picks)), int64(t.Hotness)}}
	if i%2 == 1 {
		values.dtype = typeInt32
	}
	lengths, offsets := []int64{}, []int64{0}
	for _, p := range picks {
		ids := e.examples[p].ids[i]
		values.data = integers(values.data, values.dtype, ids...)
		lengths = append(lengths, int64(len(ids)))
		offsets = append(offsets, offsets[len(offsets)-1]+int64(len(ids)))
	}
	if f == perTable {
		return []tensor{values}
	}
	values.name, values.shape = t.Name+".values", []int64{offsets[len(picks)]}
	if i%3 == 0 {
		return []tensor{values, ints(t.Name+".lengths", typeInt32, lengths...)}
	}
	return []tensor{values, ints(t.Name+".offsets", typeInt64, offsets...)}
}

// ints is a tensor of one dimension.
func ints(name string, d rankdpb.DType, values ...int64) tensor {
	return tensor{name, d, []int64{int64(len(values))}, integers(nil, d, values...)}
}

// integers appends raw little-endian elements of 4 or 8 bytes.
func integers(dst []byte, d rankdpb.DType, values ...int64) []byte {
	for _, v := range values {
		if d == typeInt32 {
			dst = binary.LittleEndian.AppendUint32(dst, uint32(v))
		} else {
			dst = binary.LittleEndian.AppendUint64(dst, uint64(v))
		}
	}
	return dst
}

func floats(dst []byte, values ...float32) []byte {
	for _, v := range values {
		dst = binary.LittleEndian.AppendUint32(dst, math.Float32bits(v))
	}
	return dst
}

// predictRequest writes tensors as a request of rankd's own service.
func (e *exam) predictRequest(list []tensor) *rankdpb.PredictRequest {
	in := map[string]*rankdpb.HostBufferProto{}
	for _, t := range list {
		in[t.name] = &rankdpb.HostBufferProto{Dtype: t.dtype, Shape: t.shape, Data: t.data}
	}
	return &rankdpb.PredictRequest{ModelName: e.m.Name, Inputs: in}
}

// inferRequest writes tensors as a request of the Open Inference Protocol, with raw contents.
func (e *exam) inferRequest(list []tensor) *kservepb.ModelInferRequest {
	k := &kservepb.ModelInferRequest{ModelName: e.m.Name}
	for _, t := range list {
		k.Inputs = append(k.Inputs, &kservepb.ModelInferRequest_InferInputTensor{Name: t.name, Datatype: datatypes[t.dtype], Shape: t.shape})
		k.RawInputContents = append(k.RawInputContents, t.data)
	}
	return k
}

// typed turns raw contents into typed ones.
func typed(k *kservepb.ModelInferRequest) *kservepb.ModelInferRequest {
	for i, in := range k.Inputs {
		c, raw := &kservepb.InferTensorContents{}, k.RawInputContents[i]
		switch in.Datatype {
		case "INT64":
			for ; len(raw) >= 8; raw = raw[8:] {
				c.Int64Contents = append(c.Int64Contents, int64(binary.LittleEndian.Uint64(raw)))
			}
		case "INT32":
			for ; len(raw) >= 4; raw = raw[4:] {
				c.IntContents = append(c.IntContents, int32(binary.LittleEndian.Uint32(raw)))
			}
		case "FP32":
			for ; len(raw) >= 4; raw = raw[4:] {
				c.Fp32Contents = append(c.Fp32Contents, math.Float32frombits(binary.LittleEndian.Uint32(raw)))
			}
		default:
			panic("no typed contents for " + in.Datatype)
		}
		in.Contents = c
	}
	k.RawInputContents = nil
	return k
}

// mark compares raw scores with what they must be (I1).
func (e *exam) mark(picks []int, raw []byte) error {
	if len(raw) != 4*len(picks) {
		return fmt.Errorf("got %d bytes of scores, want %d for %d rows", len(raw), 4*len(picks), len(picks))
	}
	for row, p := range picks {
		got := binary.LittleEndian.Uint32(raw[4*row:])
		if got == math.Float32bits(e.examples[p].score) {
			continue
		}
		whose := "the score of no example"
		if other, known := e.byScore[got]; known {
			whose = fmt.Sprintf("the score of example %d", other)
		}
		return fmt.Errorf("row %d of %d, example %d: got score %v, want %v; it is %s", row, len(picks), p,
			math.Float32frombits(got), e.examples[p].score, whose)
	}
	return nil
}
