package wire

import (
	"google.golang.org/protobuf/encoding/protowire"

	"rankd/internal/dtype"
)

// DecodePredict reads a rankd.v1.PredictRequest. r must be empty (new or Reset); it aliases b until its Reset. Errors are *Error.
func (r *Request) DecodePredict(b []byte) error {
	f := walk("PredictRequest", b)
	for f.next() {
		var err error
		switch f.num {
		case 1:
			r.Model, err = f.text("model_name", MaxName)
		case 2:
			r.Version, err = f.text("model_version", MaxName)
		case 3:
			r.ID, err = f.text("request_id", MaxID)
		case 4:
			var entry []byte
			if entry, err = f.sub("inputs"); err == nil {
				err = r.decodeInputEntry(entry)
			}
		case 5:
			var name []byte
			if name, err = f.text("output_filter", MaxName); err == nil {
				err = r.addOutput(name)
			}
		}
		if err != nil {
			return err
		}
	}
	return f.err
}

// decodeInputEntry reads an entry of map<string, HostBufferProto>. A value that comes in pieces is merged: its dtype and
// data are the last, its dimensions those of all pieces.
func (r *Request) decodeInputEntry(b []byte) error {
	t, err := r.addInput()
	if err != nil {
		return err
	}
	from, element := len(r.shapes), uint64(0)
	f := walk("PredictRequest.inputs", b)
	for f.next() {
		switch f.num {
		case 1:
			t.Name, err = f.text("key", MaxName)
		case 2:
			var value []byte
			if value, err = f.sub("value"); err == nil {
				err = r.decodeBuffer(value, t, from, &element)
			}
		}
		if err != nil {
			return err
		}
	}
	if f.err != nil {
		return f.err
	}
	t.Shape = r.shapes[from:len(r.shapes):len(r.shapes)]
	if element == 0 || element >= uint64(len(datatypes)) {
		return Errorf(ReasonDType, "decode input %s: got dtype %d, want one of %d (%s) to %d (%s)", Quote(t.Name), int32(element),
			dtype.Bool, dtype.Bool, dtype.Float64, dtype.Float64)
	}
	t.DType = dtype.DType(element)
	return r.checkData(t)
}

// decodeBuffer reads (a piece of) a HostBufferProto.
func (r *Request) decodeBuffer(b []byte, t *Tensor, from int, element *uint64) error {
	f := walk("HostBufferProto", b)
	for f.next() {
		var err error
		switch f.num {
		case 1:
			if f.typ != protowire.VarintType {
				return f.wrongType("dtype", protowire.VarintType)
			}
			*element = uint64(uint32(f.scalar)) // an enum is an int32: the generated code drops the rest, too
		case 2:
			err = r.appendDims(&f, from)
		case 3:
			t.Data, err = f.sub("data")
		}
		if err != nil {
			return err
		}
	}
	return f.err
}
