package wire

import (
	"fmt"
	"strings"
)

// The reasons of refusals made by this package and by package bind.
const (
	ReasonProtobuf  = "invalid_protobuf"        // not the message it should be
	ReasonName      = "invalid_name"            // a name or an id is too long
	ReasonCount     = "invalid_count"           // too many tensors, blobs or outputs
	ReasonShape     = "invalid_shape"           // rank, negative or unexpected dimensions, overflow, batches that differ
	ReasonDType     = "invalid_dtype"           // an unknown element type, or one that the input does not take
	ReasonSize      = "invalid_size"            // the data is not as long as shape and element type say
	ReasonContents  = "invalid_contents"        // raw and typed contents mixed, missing, or in the wrong field
	ReasonValue     = "invalid_value"           // a typed value that its element type cannot hold
	ReasonInput     = "invalid_input_name"      // an input that the model does not have
	ReasonDuplicate = "invalid_duplicate_input" // an input twice, or in two forms
	ReasonMissing   = "invalid_missing_input"   // an input that the model needs
	ReasonOffsets   = "invalid_offsets"         // offsets of ragged bags
	ReasonLengths   = "invalid_lengths"         // lengths of ragged bags
	ReasonOutput    = "invalid_output_name"     // an output that the model does not have, or twice
	ReasonTooLarge  = "request_too_large"       // more rows than the server takes in a request
)

// Error is a refusal of a request that can never succeed.
type Error struct {
	Reason string // one of the Reason constants
	Msg    string // for people: verb, object, got and want
}

// Error returns the message; the reason travels beside it.
func (e *Error) Error() string { return e.Msg }

// Errorf makes a refusal.
func Errorf(reason, format string, args ...any) *Error {
	return &Error{Reason: reason, Msg: fmt.Sprintf(format, args...)}
}

// maxQuoted is how much of a client's text is repeated in a message, in bytes.
const maxQuoted = 64

// Quote returns b in quotes, cut after 64 bytes, so that a message stays short whatever the client sent.
func Quote(b []byte) string {
	if len(b) > maxQuoted {
		return fmt.Sprintf("%q...", b[:maxQuoted])
	}
	return fmt.Sprintf("%q", b)
}

// ShapeString writes a shape as "[2,13]"; dimensions beyond MaxRank are left out.
func ShapeString(shape []int64) string {
	var s strings.Builder
	s.WriteByte('[')
	for i, d := range shape {
		if i > 0 {
			s.WriteByte(',')
		}
		if i == MaxRank {
			s.WriteString("...")
			break
		}
		fmt.Fprint(&s, d)
	}
	s.WriteByte(']')
	return s.String()
}
