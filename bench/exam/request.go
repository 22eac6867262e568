package exam

import (
	"encoding/binary"
	"fmt"
	"math"

	"google.golang.org/protobuf/proto"

	"rankd/frontend/wire/kservepb"
	"rankd/frontend/wire/rankdpb"
	"rankd/internal/dtype"
)

// tensor is an input in the form that both protocols share.
type tensor struct {
	name  string
	dtype dtype.DType
	shape []int64
	data  []byte
}

// encode writes a request for the examples picked.
func (s *Set) encode(picks []int32) ([]byte, error) {
	rows := int64(len(picks))
	var list []tensor
	if s.o.Form == Packed {
		columns, _ := s.m.IDColumns()
		list = append(list, s.ids("ids", []int64{rows, int64(columns)}, picks, 0, len(s.m.Tables)))
	} else {
		for t := range s.m.Tables {
			list = append(list, s.table(t, once(t < s.users.tables, picks))...)
		}
	}
	features := once(s.users.count > 0, picks)
	for d := range s.m.Dense {
		in := tensor{name: s.m.Dense[d].Name, dtype: dtype.Float32, shape: []int64{int64(len(features)), int64(s.m.Dense[d].Width)}}
		for _, p := range features {
			for _, v := range s.examples[p].Dense[d] {
				in.data = binary.LittleEndian.AppendUint32(in.data, math.Float32bits(v))
			}
		}
		list = append(list, in)
	}
	request := s.message(list)
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(request)
	if err != nil {
		return nil, fmt.Errorf("encode request: %w", err)
	}
	return b, nil
}

// ids is the tensor of the ids of tables [first, end), row after row.
func (s *Set) ids(name string, shape []int64, picks []int32, first, end int) tensor {
	in := tensor{name: name, dtype: dtype.Int32, shape: shape}
	if s.o.Width == 8 {
		in.dtype = dtype.Int64
	}
	for _, p := range picks {
		for _, bag := range s.examples[p].Bags[first:end] {
			for _, id := range bag.IDs {
				if s.o.Width == 8 {
					in.data = binary.LittleEndian.AppendUint64(in.data, uint64(id))
				} else {
					in.data = binary.LittleEndian.AppendUint32(in.data, uint32(id))
				}
			}
		}
	}
	return in
}

func (s *Set) table(t int, picks []int32) []tensor {
	table := &s.m.Tables[t]
	rows := int64(len(picks))
	if table.Hotness > 0 {
		return []tensor{s.ids(table.Name, []int64{rows, int64(table.Hotness)}, picks, t, t+1)}
	}
	lengths := tensor{name: table.Name + ".lengths", dtype: dtype.Int32, shape: []int64{rows}}
	for _, p := range picks {
		lengths.data = binary.LittleEndian.AppendUint32(lengths.data, uint32(len(s.examples[p].Bags[t].IDs)))
	}
	values := s.ids(table.Name+".values", nil, picks, t, t+1)
	values.shape = []int64{int64(len(values.data) / s.o.Width)}
	return []tensor{values, lengths}
}

var kserveTypes = map[dtype.DType]string{dtype.Int32: "INT32", dtype.Int64: "INT64", dtype.Float32: "FP32"}

func (s *Set) message(list []tensor) proto.Message {
	if s.o.Protocol == KServe {
		k := &kservepb.ModelInferRequest{ModelName: s.m.Name}
		for _, t := range list {
			k.Inputs = append(k.Inputs, &kservepb.ModelInferRequest_InferInputTensor{Name: t.name, Datatype: kserveTypes[t.dtype], Shape: t.shape})
			k.RawInputContents = append(k.RawInputContents, t.data)
		}
		return k
	}
	p := &rankdpb.PredictRequest{ModelName: s.m.Name, Inputs: map[string]*rankdpb.HostBufferProto{}}
	for _, t := range list {
		p.Inputs[t.name] = &rankdpb.HostBufferProto{Dtype: rankdpb.DType(t.dtype), Shape: t.shape, Data: t.data}
	}
	return p
}
