package wire

import (
	"rankd/internal/dtype"
)

// Limits of a request. They bound the work and the messages, not the size of the data.
const (
	MaxTensors = 16384 // inputs, and likewise raw blobs and requested outputs
	MaxRank    = 8     // dimensions of a tensor
	MaxName    = 512   // bytes of a model's, a version's, an input's or an output's name
	MaxID      = 1024  // bytes of a request's id
)

// keepArena is the largest arena, in bytes, that Reset keeps for the next request.
const keepArena = 1 << 20

// Tensor is one input of a request. Name and Data alias the message (or the request's arena, for typed contents), Shape
// the request; all of them are good until the request's Reset. Data is the row-major elements, little-endian, at no
// particular alignment, and exactly as long as Shape and DType say (I1).
type Tensor struct {
	Name  []byte
	DType dtype.DType
	Shape []int64
	Data  []byte
}

// Request is a decoded scoring call. The byte slices alias the message. The zero value is ready; reuse one per
// connection or from a pool: Reset, decode, use, Reset.
type Request struct {
	Model   []byte
	Version []byte // empty: the version being served
	ID      []byte // to be echoed
	Inputs  []Tensor
	Outputs [][]byte // names of the outputs wanted; empty: all

	kserve bool     // decoded by DecodeModelInfer
	shapes []int64  // backs the Shape of every input
	arena  []byte   // backs the Data of converted typed contents
	raws   [][]byte // raw_input_contents
	infers []inferInput
}

// Reset empties r and lets go of the message. Memory is kept for the next request, but for an arena beyond 1 MiB.
func (r *Request) Reset() {
	clear(r.Inputs)
	clear(r.Outputs)
	clear(r.raws)
	clear(r.infers)
	arena := r.arena[:0]
	if cap(arena) > keepArena {
		arena = nil
	}
	*r = Request{
		Inputs: r.Inputs[:0], Outputs: r.Outputs[:0], shapes: r.shapes[:0], arena: arena, raws: r.raws[:0], infers: r.infers[:0],
	}
}

// DTypeName is d's name in the protocol that r was decoded from, for messages: "float16" or "FP16".
func (r *Request) DTypeName(d dtype.DType) string {
	if r.kserve && d.Valid() {
		return datatypes[d]
	}
	return d.String()
}

// addInput makes room for another input; the caller fills it.
func (r *Request) addInput() (*Tensor, error) {
	if len(r.Inputs) == MaxTensors {
		return nil, Errorf(ReasonCount, "decode request: got more than %d inputs, want at most %d", MaxTensors, MaxTensors)
	}
	r.Inputs = append(r.Inputs, Tensor{})
	return &r.Inputs[len(r.Inputs)-1], nil
}

// addOutput notes a requested output.
func (r *Request) addOutput(name []byte) error {
	if len(r.Outputs) == MaxTensors {
		return Errorf(ReasonCount, "decode request: got more than %d requested outputs, want at most %d", MaxTensors, MaxTensors)
	}
	r.Outputs = append(r.Outputs, name)
	return nil
}
