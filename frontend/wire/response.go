package wire

import (
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"rankd/internal/dtype"
)

// Output is a run of columns in the score matrix of a model.
type Output struct {
	Name   string
	Width  int // 0: shape [B]; k > 0: shape [B, k]
	Column int // its first column
}

func (o *Output) columns() int { return max(o.Width, 1) }

// SelectOutputs appends to dst the outputs that r asks for, in its order, or all of them if it asks for none. It refuses
// unknown ones and those asked for twice.
func (r *Request) SelectOutputs(dst, all []Output) ([]Output, error) {
	if len(r.Outputs) == 0 {
		return append(dst, all...), nil
	}
	from := len(dst)
	for _, name := range r.Outputs {
		i := slices.IndexFunc(all, func(o Output) bool { return o.Name == string(name) })
		if i < 0 {
			return dst, Errorf(ReasonOutput, "select output %s: the model has no such output, want one of %s", Quote(name), outputNames(all))
		}
		if slices.ContainsFunc(dst[from:], func(o Output) bool { return o.Name == string(name) }) {
			return dst, Errorf(ReasonOutput, "select output %s: it is asked for twice, want it once", Quote(name))
		}
		dst = append(dst, all[i])
	}
	return dst, nil
}

func outputNames(all []Output) string {
	var s []byte
	for i := range all {
		if i > 0 {
			s = append(s, ", "...)
		}
		s = append(s, Quote([]byte(all[i].Name))...)
	}
	return string(s)
}

// Response is a reply. It is laid out first, with holes for the scores, and filled as batches finish: scores are copied
// once, from the device's memory to their place in the reply.
type Response struct {
	Model   string
	Version string
	ID      []byte // the request's, copied by the Append functions
	Rows    int
	Columns int      // of the score matrix, float32 each
	Outputs []Output // those to send, in this order

	holes []int // offset in the reply of each output's data
}

// AppendPredictResponse appends a rankd.v1.PredictResponse whose scores are zero until p.Fill. It allocates nothing but dst's growth.
func AppendPredictResponse(dst []byte, p *Response) []byte {
	p.holes = p.holes[:0]
	dst = p.appendHead(dst)
	for i := range p.Outputs {
		o := &p.Outputs[i]
		data := p.dataBytes(o)
		shape := p.shapeBytes(o)
		buffer := 2 + 1 + protowire.SizeBytes(shape) + 1 + protowire.SizeBytes(data)
		dst = protowire.AppendTag(dst, 4, protowire.BytesType)
		dst = protowire.AppendVarint(dst, uint64(1+protowire.SizeBytes(len(o.Name))+1+protowire.SizeBytes(buffer)))
		dst = appendText(dst, 1, o.Name)
		dst = protowire.AppendTag(dst, 2, protowire.BytesType)
		dst = protowire.AppendVarint(dst, uint64(buffer))
		dst = protowire.AppendTag(dst, 1, protowire.VarintType)
		dst = protowire.AppendVarint(dst, uint64(dtype.Float32))
		dst = p.appendShape(dst, 2, o)
		dst = p.appendHole(dst, 3, data)
	}
	return dst
}

// AppendModelInferResponse appends an inference.ModelInferResponse with raw_output_contents that are zero until p.Fill. It
// allocates nothing but dst's growth.
func AppendModelInferResponse(dst []byte, p *Response) []byte {
	p.holes = p.holes[:0]
	dst = p.appendHead(dst)
	for i := range p.Outputs {
		o := &p.Outputs[i]
		dst = protowire.AppendTag(dst, 5, protowire.BytesType)
		dst = protowire.AppendVarint(dst, uint64(1+protowire.SizeBytes(len(o.Name))+1+protowire.SizeBytes(len("FP32"))+1+protowire.SizeBytes(p.shapeBytes(o))))
		dst = appendText(dst, 1, o.Name)
		dst = appendText(dst, 2, "FP32")
		dst = p.appendShape(dst, 3, o)
	}
	for i := range p.Outputs {
		dst = p.appendHole(dst, 6, p.dataBytes(&p.Outputs[i]))
	}
	return dst
}

// Fill copies scores, float32 [n, Columns] of rows [first, first+n), into reply, the slice that one of the Append functions
// returned.
//
// Preconditions: len(scores) is a multiple of 4·Columns, and the rows lie in [0, Rows).
func (p *Response) Fill(reply []byte, first int, scores []byte) {
	stride := 4 * p.Columns
	for i := range p.Outputs {
		o := &p.Outputs[i]
		width := 4 * o.columns()
		dst := reply[p.holes[i]:][:p.Rows*width][first*width:]
		if width == stride {
			copy(dst[:len(scores)], scores)
			continue
		}
		for src := scores; len(src) > 0; src = src[stride:] {
			copy(dst[:width], src[4*o.Column:])
			dst = dst[width:]
		}
	}
}

// appendHead writes fields 1 to 3, which both messages share.
func (p *Response) appendHead(dst []byte) []byte {
	if p.Model != "" {
		dst = appendText(dst, 1, p.Model)
	}
	if p.Version != "" {
		dst = appendText(dst, 2, p.Version)
	}
	if len(p.ID) > 0 {
		dst = protowire.AppendTag(dst, 3, protowire.BytesType)
		dst = protowire.AppendBytes(dst, p.ID)
	}
	return dst
}

func appendText(dst []byte, num protowire.Number, s string) []byte {
	return protowire.AppendString(protowire.AppendTag(dst, num, protowire.BytesType), s)
}

func (p *Response) dataBytes(o *Output) int { return 4 * p.Rows * o.columns() }

func (p *Response) shapeBytes(o *Output) int {
	n := protowire.SizeVarint(uint64(p.Rows))
	if o.Width > 0 {
		n += protowire.SizeVarint(uint64(o.Width))
	}
	return n
}

func (p *Response) appendShape(dst []byte, num protowire.Number, o *Output) []byte {
	dst = protowire.AppendTag(dst, num, protowire.BytesType)
	dst = protowire.AppendVarint(dst, uint64(p.shapeBytes(o)))
	dst = protowire.AppendVarint(dst, uint64(p.Rows))
	if o.Width > 0 {
		dst = protowire.AppendVarint(dst, uint64(o.Width))
	}
	return dst
}

// appendHole leaves size zero bytes for an output's data. They are cleared, so that a reply can never hold what an earlier use of
// dst left there.
func (p *Response) appendHole(dst []byte, num protowire.Number, size int) []byte {
	dst = protowire.AppendTag(dst, num, protowire.BytesType)
	dst = protowire.AppendVarint(dst, uint64(size))
	p.holes = append(p.holes, len(dst))
	dst = slices.Grow(dst, size)
	from := len(dst)
	dst = dst[:from+size]
	clear(dst[from:])
	return dst
}
