package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/big"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"rankd/frontend/wire/kservepb"
	"rankd/frontend/wire/rankdpb"
	"rankd/internal/dtype"
)

// This file is a slow second decoder, built on the generated code: what it accepts, and the tensors that it finds, is what
// the decoders of this package must accept and find.

// reference is a decoded request.
type reference struct {
	model, version, id string
	inputs             []refTensor
	outputs            []string
}

type refTensor struct {
	name  string
	dtype dtype.DType
	shape []int64
	data  []byte
}

var errRefused = errors.New("refused")

func refuse(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{errRefused}, args...)...)
}

// strip applies the rules that are stricter than protobuf (doc.go) to a message, and returns it without parameters.
func strip(b []byte, md protoreflect.MessageDescriptor) ([]byte, error) {
	var out []byte
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeField(b)
		if n < 0 {
			return nil, refuse("malformed %s", md.Name())
		}
		if typ == protowire.StartGroupType || typ == protowire.EndGroupType {
			return nil, refuse("group")
		}
		field := b[:n]
		b = b[n:]
		fd := md.Fields().ByNumber(num)
		if fd == nil {
			out = append(out, field...)
			continue
		}
		packed := fd.IsList() && typ == protowire.BytesType
		if typ != wireType(fd.Kind()) && !packed {
			return nil, refuse("wire type of %s", fd.Name())
		}
		if fd.Name() == "parameters" {
			continue
		}
		if fd.Kind() != protoreflect.MessageKind {
			limit := MaxName
			if fd.Name() == "id" || fd.Name() == "request_id" {
				limit = MaxID
			}
			_, _, tag := protowire.ConsumeTag(field)
			if text, _ := protowire.ConsumeBytes(field[tag:]); fd.Kind() == protoreflect.StringKind && len(text) > limit {
				return nil, refuse("long %s", fd.Name())
			}
			out = append(out, field...)
			continue
		}
		_, _, tag := protowire.ConsumeTag(field)
		body, _ := protowire.ConsumeBytes(field[tag:])
		inner, err := strip(body, fd.Message())
		if err != nil {
			return nil, err
		}
		out = protowire.AppendBytes(protowire.AppendTag(out, num, typ), inner)
	}
	return out, nil
}

func wireType(k protoreflect.Kind) protowire.Type {
	switch k {
	case protoreflect.StringKind, protoreflect.BytesKind, protoreflect.MessageKind:
		return protowire.BytesType
	case protoreflect.FloatKind:
		return protowire.Fixed32Type
	case protoreflect.DoubleKind:
		return protowire.Fixed64Type
	}
	return protowire.VarintType
}

func (t *refTensor) bytes() (int64, error) {
	if !t.dtype.Valid() {
		return 0, refuse("dtype")
	}
	if len(t.shape) > MaxRank {
		return 0, refuse("rank")
	}
	product, empty := big.NewInt(int64(t.dtype.Size())), false
	for _, d := range t.shape {
		switch {
		case d < 0:
			return 0, refuse("negative")
		case d == 0:
			empty = true
		default:
			product.Mul(product, big.NewInt(d))
		}
	}
	if !product.IsInt64() {
		return 0, refuse("overflow")
	}
	if empty {
		return 0, nil
	}
	return product.Int64(), nil
}

func (t *refTensor) check() error {
	want, err := t.bytes()
	if err == nil && want != int64(len(t.data)) {
		err = refuse("size")
	}
	return err
}

func refPredict(b []byte) (*reference, error) {
	var m rankdpb.PredictRequest
	stripped, err := strip(b, m.ProtoReflect().Descriptor())
	if err != nil {
		return nil, err
	}
	if err := proto.Unmarshal(stripped, &m); err != nil {
		return nil, refuse("%v", err)
	}
	ref := &reference{model: m.ModelName, version: m.ModelVersion, id: m.RequestId, outputs: m.OutputFilter}
	// The map loses duplicates and their order, so that each entry is decoded as a message of its own.
	for len(stripped) > 0 {
		num, _, n := protowire.ConsumeField(stripped)
		if num == 4 {
			var one rankdpb.PredictRequest
			if err := proto.Unmarshal(stripped[:n], &one); err != nil {
				return nil, refuse("%v", err)
			}
			for name, v := range one.Inputs {
				t := refTensor{name: name, shape: v.Shape, data: v.Data}
				if v.Dtype > 0 && v.Dtype < 256 {
					t.dtype = dtype.DType(v.Dtype)
				}
				if err := t.check(); err != nil {
					return nil, err
				}
				ref.inputs = append(ref.inputs, t)
			}
		}
		stripped = stripped[n:]
	}
	return ref, ref.limits()
}

func refInfer(b []byte) (*reference, error) {
	var m kservepb.ModelInferRequest
	stripped, err := strip(b, m.ProtoReflect().Descriptor())
	if err != nil {
		return nil, err
	}
	if err := proto.Unmarshal(stripped, &m); err != nil {
		return nil, refuse("%v", err)
	}
	ref := &reference{model: m.ModelName, version: m.ModelVersion, id: m.Id}
	for _, o := range m.Outputs {
		ref.outputs = append(ref.outputs, o.Name)
	}
	if raws := len(m.RawInputContents); raws > 0 && raws != len(m.Inputs) {
		return nil, refuse("count")
	}
	for i, in := range m.Inputs {
		t := refTensor{name: in.Name, shape: in.Shape}
		for d := dtype.Bool; d.Valid(); d++ {
			if Datatype(d) == in.Datatype {
				t.dtype = d
			}
		}
		if _, err := t.bytes(); err != nil { // before the contents, whose type would be unknown
			return nil, err
		}
		if len(m.RawInputContents) > 0 {
			if proto.Size(in.Contents) > 0 {
				return nil, refuse("mixed")
			}
			t.data = m.RawInputContents[i]
		} else if t.data, err = refContents(t.dtype, in.Contents); err != nil {
			return nil, err
		}
		if err := t.check(); err != nil {
			return nil, err
		}
		ref.inputs = append(ref.inputs, t)
	}
	return ref, ref.limits()
}

func (ref *reference) limits() error {
	if len(ref.inputs) > MaxTensors || len(ref.outputs) > MaxTensors {
		return refuse("count")
	}
	return nil
}

// refContents turns typed contents into raw ones.
func refContents(d dtype.DType, c *kservepb.InferTensorContents) (data []byte, err error) {
	in := func(v, lo, hi int64) {
		if v < lo || v > hi {
			err = refuse("value")
		}
	}
	le := binary.LittleEndian
	others := len(c.GetBytesContents())
	field := func(is bool, n int) bool {
		if !is {
			others += n
		}
		return is
	}
	if field(d == dtype.Bool, len(c.GetBoolContents())) {
		for _, v := range c.GetBoolContents() {
			data = append(data, byte(protowire.EncodeBool(v)))
		}
	}
	if field(d == dtype.Int8 || d == dtype.Int16 || d == dtype.Int32, len(c.GetIntContents())) {
		for _, v := range c.GetIntContents() {
			switch d {
			case dtype.Int8:
				in(int64(v), math.MinInt8, math.MaxInt8)
				data = append(data, byte(v))
			case dtype.Int16:
				in(int64(v), math.MinInt16, math.MaxInt16)
				data = le.AppendUint16(data, uint16(v))
			default:
				data = le.AppendUint32(data, uint32(v))
			}
		}
	}
	if field(d == dtype.Uint8 || d == dtype.Uint16 || d == dtype.Uint32, len(c.GetUintContents())) {
		for _, v := range c.GetUintContents() {
			switch d {
			case dtype.Uint8:
				in(int64(v), 0, math.MaxUint8)
				data = append(data, byte(v))
			case dtype.Uint16:
				in(int64(v), 0, math.MaxUint16)
				data = le.AppendUint16(data, uint16(v))
			default:
				data = le.AppendUint32(data, v)
			}
		}
	}
	if field(d == dtype.Int64, len(c.GetInt64Contents())) {
		for _, v := range c.GetInt64Contents() {
			data = le.AppendUint64(data, uint64(v))
		}
	}
	if field(d == dtype.Uint64, len(c.GetUint64Contents())) {
		for _, v := range c.GetUint64Contents() {
			data = le.AppendUint64(data, v)
		}
	}
	if field(d == dtype.Float32, len(c.GetFp32Contents())) {
		for _, v := range c.GetFp32Contents() {
			data = le.AppendUint32(data, math.Float32bits(v))
		}
	}
	if field(d == dtype.Float64, len(c.GetFp64Contents())) {
		for _, v := range c.GetFp64Contents() {
			data = le.AppendUint64(data, math.Float64bits(v))
		}
	}
	if others > 0 {
		err = refuse("field")
	}
	return data, err
}

// refPredictPlain is the generated code alone, for comparison of speed.
func refPredictPlain(b []byte) (*rankdpb.PredictRequest, error) {
	var m rankdpb.PredictRequest
	return &m, proto.Unmarshal(b, &m)
}
