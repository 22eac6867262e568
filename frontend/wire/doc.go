// Package wire reads scoring requests of two protocols in place and writes their replies. A request's tensors are left
// where they lie in the message; what comes out of it has exact sizes and known element types, whatever the client sent.
//
// # Nouns
//
//   - Request: a decoded scoring call of either protocol. It aliases the message and is used again and again.
//   - Tensor: one input: name, element type, shape and raw little-endian elements.
//   - raw and typed contents: the two ways in which the Open Inference Protocol carries elements. Typed ones are written
//     into the request's arena as raw ones.
//   - hole: the place in a reply where the scores of one output go. A reply is laid out before there are any scores.
//   - Error: a refusal: a reason for programs and a message for people, which names the input, what came and what was wanted.
//
// # Invariants
//
//	I1  A tensor of a decoded request has a valid DType, no negative dimension, and len(Data) == product(Shape) × DType.Size(),
//	    computed without overflow.
//	I2  Decoding allocates for what is there, never for what a shape or a length claims: everything that grows is counted first.
//	I3  Decoding a message of raw contents allocates nothing once the Request has been warmed by one of its kind.
//	I4  What is accepted means what the generated code would have read: fields may come in any order, the last of a
//	    repeated singular field wins, pieces of a split sub-message are merged, a missing key or value of a map entry is
//	    the zero value, unknown fields are skipped.
//	I5  No message, however malformed, makes a decoder panic, read outside the message, or take more than linear time.
//
// # Stricter than the protocol
//
// Beyond what protobuf itself refuses: groups; a known field with another wire type than its own (protobuf would take it
// for an unknown field, and so drop an input); a name of more than MaxName bytes, more than MaxRank dimensions, more than
// MaxTensors inputs, raw blobs or outputs. "parameters" of the Open Inference Protocol are stepped over and not looked into.
//
// An input that comes twice is seen where inputs are matched with a model's (package bind); protobuf would let the last win.
//
// # Layout
//
// request.go holds the types and limits, fields.go walks a message, shape.go checks sizes, predict.go and infer.go are the
// two decoders, contents.go converts typed contents, response.go writes replies. The .proto files are in proto/.
//
// # Concurrency
//
// A Request and a Response belong to one goroutine at a time. There is no shared state.
//
// # Failure
//
// Decoding returns an *Error; the Request is then to be Reset and holds nothing of use. Memory of the message must not
// change or be used again while a Request that was decoded from it is in use.
package wire
