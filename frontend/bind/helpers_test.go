package bind

import (
	"encoding/binary"
	"fmt"
	"math"
	"testing"

	"google.golang.org/protobuf/proto"

	"rankd/frontend/wire"
	"rankd/frontend/wire/kservepb"
	"rankd/frontend/wire/rankdpb"
	"rankd/internal/dtype"
	"rankd/internal/testutil"
	"rankd/model"
	"rankd/tables"
)

func TestMain(m *testing.M) { testutil.Main(m) }

// manifest is a model of four tables t0..t3 of the given hotness, 1000 rows of 8 float32 each, dense [B,13] and a second
// dense input of width 1 in another packed array.
func manifest(hots ...int) *model.Manifest {
	m := &model.Manifest{Name: "t4", Version: "1", MaxBatch: 256}
	offset := 0
	for i, hot := range hots {
		m.Tables = append(m.Tables, model.Table{
			Name: fmt.Sprintf("t%d", i), Rows: 1000, Dim: 8, Hotness: hot, Combiner: model.CombinerSum,
			IDPolicy: model.PolicyReject, RowDType: dtype.Float32, Slot: model.Slot{Offset: offset},
		})
		offset += 64
	}
	m.Dense = []model.Dense{
		{Name: "dense", Width: 13, DType: dtype.Float32, Slot: model.Slot{Array: 0, Offset: offset}},
		{Name: "age", Width: 1, DType: dtype.Float32, Slot: model.Slot{Array: 1, Offset: 8}},
	}
	m.Packed = []model.PackedArray{{DType: dtype.Float32, Stride: offset + 64}, {DType: dtype.Float32, Stride: 64}}
	m.Outputs = []model.Output{{Name: "score"}, {Name: "heads", Width: 2, Column: 1}}
	return m
}

func binder(t testing.TB, m *model.Manifest, opt Options) *Binder {
	t.Helper()
	b, err := New(m, opt)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// tensor is an input as a test writes it.
type tensor struct {
	name  string
	dtype dtype.DType
	shape []int64
	data  []byte
}

func i64(name string, shape []int64, ids ...int64) tensor {
	t := tensor{name, dtype.Int64, shape, nil}
	for _, v := range ids {
		t.data = binary.LittleEndian.AppendUint64(t.data, uint64(v))
	}
	return t
}

func i32(name string, shape []int64, ids ...int32) tensor {
	t := tensor{name, dtype.Int32, shape, nil}
	for _, v := range ids {
		t.data = binary.LittleEndian.AppendUint32(t.data, uint32(v))
	}
	return t
}

func f32(name string, shape []int64, values ...float32) tensor {
	t := tensor{name, dtype.Float32, shape, nil}
	for _, v := range values {
		t.data = binary.LittleEndian.AppendUint32(t.data, math.Float32bits(v))
	}
	return t
}

// zeros is a tensor of zeros that fits its shape.
func zeros(name string, d dtype.DType, shape ...int64) tensor {
	n := int64(d.Size())
	for _, s := range shape {
		n *= s
	}
	return tensor{name, d, shape, make([]byte, n)}
}

// protocol is a way to send tensors.
type protocol struct {
	name   string
	kserve bool
	encode func(t testing.TB, ts []tensor) []byte
}

var protocols = []protocol{
	{"native", false, func(t testing.TB, ts []tensor) []byte {
		var b []byte
		for _, in := range ts { // one message an input, merged by concatenation, so that an input can come twice
			m := &rankdpb.PredictRequest{Inputs: map[string]*rankdpb.HostBufferProto{
				in.name: {Dtype: rankdpb.DType(in.dtype), Shape: in.shape, Data: in.data},
			}}
			b = append(b, marshal(t, m)...)
		}
		return b
	}},
	{"raw", true, func(t testing.TB, ts []tensor) []byte {
		m := &kservepb.ModelInferRequest{}
		for _, in := range ts {
			m.Inputs = append(m.Inputs, &kservepb.ModelInferRequest_InferInputTensor{Name: in.name, Datatype: wire.Datatype(in.dtype), Shape: in.shape})
			m.RawInputContents = append(m.RawInputContents, in.data)
		}
		return marshal(t, m)
	}},
	{"typed", true, func(t testing.TB, ts []tensor) []byte {
		m := &kservepb.ModelInferRequest{}
		for _, in := range ts {
			m.Inputs = append(m.Inputs, &kservepb.ModelInferRequest_InferInputTensor{
				Name: in.name, Datatype: wire.Datatype(in.dtype), Shape: in.shape, Contents: contents(in),
			})
		}
		return marshal(t, m)
	}},
}

func marshal(t testing.TB, m proto.Message) []byte {
	t.Helper()
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// contents is raw data as typed contents; nil for the types that have none.
func contents(in tensor) *kservepb.InferTensorContents {
	c := &kservepb.InferTensorContents{}
	le := binary.LittleEndian
	size := in.dtype.Size()
	for b := in.data; len(b) >= size; b = b[size:] {
		switch in.dtype {
		case dtype.Bool:
			c.BoolContents = append(c.BoolContents, b[0] != 0)
		case dtype.Int8:
			c.IntContents = append(c.IntContents, int32(int8(b[0])))
		case dtype.Int16:
			c.IntContents = append(c.IntContents, int32(int16(le.Uint16(b))))
		case dtype.Int32:
			c.IntContents = append(c.IntContents, int32(le.Uint32(b)))
		case dtype.Int64:
			c.Int64Contents = append(c.Int64Contents, int64(le.Uint64(b)))
		case dtype.Uint8:
			c.UintContents = append(c.UintContents, uint32(b[0]))
		case dtype.Uint16:
			c.UintContents = append(c.UintContents, uint32(le.Uint16(b)))
		case dtype.Uint32:
			c.UintContents = append(c.UintContents, le.Uint32(b))
		case dtype.Uint64:
			c.Uint64Contents = append(c.Uint64Contents, le.Uint64(b))
		case dtype.Float32:
			c.Fp32Contents = append(c.Fp32Contents, math.Float32frombits(le.Uint32(b)))
		case dtype.Float64:
			c.Fp64Contents = append(c.Fp64Contents, math.Float64frombits(le.Uint64(b)))
		default:
			return nil
		}
	}
	return c
}

// half reports whether a type has no typed contents.
func half(ts []tensor) bool {
	for _, in := range ts {
		if in.dtype == dtype.Float16 || in.dtype == dtype.BFloat16 {
			return true
		}
	}
	return false
}

// decode decodes a message of p.
func (p *protocol) decode(r *wire.Request, b []byte) error {
	if p.kserve {
		return r.DecodeModelInfer(b)
	}
	return r.DecodePredict(b)
}

// bind sends ts through p and binds them to q.
func (p *protocol) bind(t testing.TB, b *Binder, q *Query, ts []tensor) error {
	t.Helper()
	var r wire.Request
	if err := p.decode(&r, p.encode(t, ts)); err != nil {
		return err
	}
	return b.Bind(&r, q)
}

// bagIDs reads the bag of a row as the tables package does.
func bagIDs(b *tables.Bags, row int) []int64 {
	if b.Broadcast {
		row = 0
	}
	from := b.First + row*b.Step
	to := from + b.Hot
	if b.Offsets != nil {
		from, to = int(b.Offsets[row]), int(b.Offsets[row+1])
	}
	ids := []int64{}
	for i := from; i < to; i++ {
		if b.Width == 4 {
			ids = append(ids, int64(int32(binary.LittleEndian.Uint32(b.Values[4*i:]))))
		} else {
			ids = append(ids, int64(binary.LittleEndian.Uint64(b.Values[8*i:])))
		}
		if b.Weights != nil {
			_ = b.Weights[4*i : 4*i+4]
		}
	}
	return ids
}

// bags are the ids of all rows of a table.
func bags(q *Query, table int) [][]int64 {
	var all [][]int64
	for row := range q.Rows {
		all = append(all, bagIDs(&q.Bags[table], row))
	}
	return all
}
