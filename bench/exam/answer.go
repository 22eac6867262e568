package exam

import (
	"encoding/binary"
	"math"

	"rankd/frontend/wire"
)

// Answer is the reply of a server that makes no mistake to request i. Load generators are tested with it.
func (r *Requests) Answer(i int) []byte {
	return r.answer(i, func([]byte) {})
}

// answer writes the right scores, as the server's encoder does, after change has had its way with them.
func (r *Requests) answer(i int, change func(scores []byte)) []byte {
	s := r.set
	p := wire.Response{Model: s.m.Name, Version: s.m.Version, Rows: r.Rows, Columns: s.columns}
	for _, o := range s.m.Outputs {
		p.Outputs = append(p.Outputs, wire.Output{Name: o.Name, Width: o.Width, Column: o.Column})
	}
	var reply []byte
	if s.o.Protocol == KServe {
		reply = wire.AppendModelInferResponse(nil, &p)
	} else {
		reply = wire.AppendPredictResponse(nil, &p)
	}
	var scores []byte
	for _, e := range r.picks[i] {
		for _, v := range s.scores[int(e)*s.columns:][:s.columns] {
			scores = binary.LittleEndian.AppendUint32(scores, math.Float32bits(v))
		}
	}
	change(scores)
	p.Fill(reply, 0, scores)
	return reply
}
