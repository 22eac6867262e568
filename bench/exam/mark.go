package exam

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// Tolerances, see the package comment.
const (
	simTolerance     = 1e-5
	simHalfTolerance = 2e-2
	pjrtTolerance    = 1e-4
	pjrtRelative     = 2e-3
)

var errReply = errors.New("read reply: got no valid message")

// Mark compares the reply to request i with what it must be. It returns the largest difference of a score and, if the reply does not
// pass, what is wrong with it (I2).
func (r *Requests) Mark(i int, reply []byte) (difference float64, err error) {
	if r.set.o.Protocol == KServe {
		return r.markKServe(i, reply)
	}
	return r.markRankd(i, reply)
}

// markRankd reads field 4, a map from names to buffers.
func (r *Requests) markRankd(i int, reply []byte) (difference float64, err error) {
	var seen uint64
	for len(reply) > 0 {
		num, typ, n := protowire.ConsumeTag(reply)
		if n < 0 {
			return difference, errReply
		}
		reply = reply[n:]
		if num != 4 || typ != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(num, typ, reply); n < 0 {
				return difference, errReply
			}
			reply = reply[n:]
			continue
		}
		entry, n := protowire.ConsumeBytes(reply)
		if n < 0 {
			return difference, errReply
		}
		reply = reply[n:]
		name, buffer := lengthField(entry, 1), lengthField(entry, 2)
		o := r.set.find(name)
		if o < 0 {
			return difference, fmt.Errorf("read reply: got output %q, which the model has not", name)
		}
		seen |= 1 << o
		d, err := r.compare(i, o, lengthField(buffer, 3))
		difference = max(difference, d)
		if err != nil {
			return difference, err
		}
	}
	return difference, r.complete(seen)
}

// markKServe reads field 5 (name first) for the names and field 6 for the data, which come in the same order.
func (r *Requests) markKServe(i int, reply []byte) (difference float64, err error) {
	var seen uint64
	var names, blobs [maxOutputs][]byte
	nNames, nBlobs := 0, 0
	for len(reply) > 0 {
		num, typ, n := protowire.ConsumeTag(reply)
		if n < 0 {
			return difference, errReply
		}
		body := reply[n:]
		if n = protowire.ConsumeFieldValue(num, typ, body); n < 0 {
			return difference, errReply
		}
		reply = body[n:]
		if typ != protowire.BytesType || (num != 5 && num != 6) {
			continue
		}
		value, _ := protowire.ConsumeBytes(body)
		switch {
		case num == 5 && nNames < len(names):
			names[nNames] = lengthField(value, 1)
			nNames++
		case num == 6 && nBlobs < len(blobs):
			blobs[nBlobs] = value
			nBlobs++
		}
	}
	if nNames != nBlobs {
		return 0, fmt.Errorf("read reply: got %d outputs and %d blobs", nNames, nBlobs)
	}
	for k := range nNames {
		o := r.set.find(names[k])
		if o < 0 {
			return difference, fmt.Errorf("read reply: got output %q, which the model has not", names[k])
		}
		seen |= 1 << o
		d, err := r.compare(i, o, blobs[k])
		difference = max(difference, d)
		if err != nil {
			return difference, err
		}
	}
	return difference, r.complete(seen)
}

func (r *Requests) complete(seen uint64) error {
	for o := range r.set.outputs {
		if seen&(1<<o) == 0 {
			return fmt.Errorf("read reply: got no output %q", r.set.outputs[o].name)
		}
	}
	return nil
}

// lengthField returns the last field of the given number, or nil.
func lengthField(b []byte, want protowire.Number) (value []byte) {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return value
		}
		b = b[n:]
		if num == want && typ == protowire.BytesType {
			value, n = protowire.ConsumeBytes(b)
		} else {
			n = protowire.ConsumeFieldValue(num, typ, b)
		}
		if n < 0 {
			return nil
		}
		b = b[n:]
	}
	return value
}

func (s *Set) find(name []byte) int {
	for o := range s.outputs {
		if s.outputs[o].name == string(name) {
			return o
		}
	}
	return -1
}

// compare compares float32 [rows, width] of an output.
func (r *Requests) compare(i, o int, data []byte) (difference float64, err error) {
	out := &r.set.outputs[o]
	if got, want := len(data), 4*r.Rows*out.width; got != want {
		return 0, fmt.Errorf("read output %q: got %d bytes, want %d for %d rows", out.name, got, want, r.Rows)
	}
	for row, p := range r.picks[i] {
		want := r.set.scores[int(p)*r.set.columns+out.first:][:out.width]
		for k, w := range want {
			got := math.Float32frombits(binary.LittleEndian.Uint32(data[4*(row*out.width+k):]))
			d, limit := r.set.distance(float64(got), float64(w))
			if !(d <= limit) { // also NaN
				return d, fmt.Errorf("read output %q: row %d of %d, column %d: got %v, want %v within %.1g", out.name, row, r.Rows, k, got, w, limit)
			}
			difference = max(difference, d)
		}
	}
	return difference, nil
}

// distance is that of two scores, and how large it may be.
func (s *Set) distance(got, want float64) (d, limit float64) {
	d = math.Abs(got - want)
	if s.o.Executor == Sim {
		return min(d, math.Abs(1-d)), s.simLimit // scores are on a circle: 1 is 0
	}
	return d, pjrtTolerance + pjrtRelative*math.Abs(want)
}
