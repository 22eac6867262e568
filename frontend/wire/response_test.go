package wire

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"rankd/frontend/wire/kservepb"
	"rankd/frontend/wire/rankdpb"
	"rankd/internal/testutil"
)

func TestMain(m *testing.M) { testutil.Main(m) }

// scoreMatrix is [rows, columns] with the value 100·row + column.
func scoreMatrix(rows, columns int) []byte {
	var b []byte
	for r := range rows {
		for c := range columns {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(100*r+c)))
		}
	}
	return b
}

// column is what an output of [rows, width] from a column on holds.
func column(rows, first, width int) []byte {
	var b []byte
	for r := range rows {
		for c := range width {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(100*r+first+c)))
		}
	}
	return b
}

var threeOutputs = []Output{{"click", 0, 0}, {"rest", 3, 1}, {"all", 4, 0}}

// fill fills a reply in chunks of 1, 2, 3... rows, the last chunk first.
func fill(p *Response, reply []byte) {
	scores := scoreMatrix(p.Rows, p.Columns)
	stride := 4 * p.Columns
	var chunks [][2]int
	for first, n := 0, 1; first < p.Rows; first, n = first+n, n+1 {
		chunks = append(chunks, [2]int{first, min(n, p.Rows-first)})
	}
	for _, c := range slices.Backward(chunks) {
		p.Fill(reply, c[0], scores[c[0]*stride:(c[0]+c[1])*stride])
	}
}

func TestPredictResponseIsWhatTheGeneratedCodeReads(t *testing.T) {
	prefix := []byte("prefix")
	dirty := bytes.Repeat([]byte{0xaa}, 8192) // a buffer used before
	for _, rows := range []int{1, 2, 7, 127, 128, 300} {
		p := &Response{Model: "m", Version: "3", ID: []byte("id"), Rows: rows, Columns: 4, Outputs: threeOutputs}
		reply := AppendPredictResponse(append(dirty[:0], prefix...), p)
		fill(p, reply)
		if !bytes.HasPrefix(reply, prefix) {
			t.Fatal("what stood before the reply was changed")
		}
		var got rankdpb.PredictResponse
		if err := proto.Unmarshal(reply[len(prefix):], &got); err != nil {
			t.Fatal(err)
		}
		n := int64(rows)
		want := &rankdpb.PredictResponse{
			ModelName: "m", ModelVersion: "3", RequestId: "id",
			Outputs: map[string]*rankdpb.HostBufferProto{
				"click": {Dtype: rankdpb.DType_DTYPE_FLOAT32, Shape: []int64{n}, Data: column(rows, 0, 1)},
				"rest":  {Dtype: rankdpb.DType_DTYPE_FLOAT32, Shape: []int64{n, 3}, Data: column(rows, 1, 3)},
				"all":   {Dtype: rankdpb.DType_DTYPE_FLOAT32, Shape: []int64{n, 4}, Data: column(rows, 0, 4)},
			},
		}
		if !proto.Equal(&got, want) {
			t.Errorf("%d rows: got %v, want %v", rows, &got, want)
		}
	}
}

func TestModelInferResponseIsWhatTheGeneratedCodeReads(t *testing.T) {
	for _, rows := range []int{1, 2, 128, 300} {
		p := &Response{Model: "m", Rows: rows, Columns: 4, Outputs: threeOutputs[1:]} // no version, no id
		reply := AppendModelInferResponse(nil, p)
		fill(p, reply)
		var got kservepb.ModelInferResponse
		if err := proto.Unmarshal(reply, &got); err != nil {
			t.Fatal(err)
		}
		n := int64(rows)
		want := &kservepb.ModelInferResponse{
			ModelName: "m",
			Outputs: []*kservepb.ModelInferResponse_InferOutputTensor{
				{Name: "rest", Datatype: "FP32", Shape: []int64{n, 3}}, {Name: "all", Datatype: "FP32", Shape: []int64{n, 4}},
			},
			RawOutputContents: [][]byte{column(rows, 1, 3), column(rows, 0, 4)},
		}
		if !proto.Equal(&got, want) {
			t.Errorf("%d rows: got %v, want %v", rows, &got, want)
		}
	}
}

func TestReplyHoldsNothingOfAnEarlierOne(t *testing.T) {
	p := &Response{Rows: 5, Columns: 1, Outputs: []Output{{"score", 0, 0}}}
	reply := AppendPredictResponse(bytes.Repeat([]byte{0xaa}, 100)[:0], p)
	if bytes.Contains(reply, []byte{0xaa, 0xaa}) {
		t.Errorf("got %x, want holes of zeros", reply)
	}
}

func TestSelectOutputs(t *testing.T) {
	for _, c := range []struct {
		ask  []string
		want []string
		msg  string
	}{
		{nil, []string{"click", "rest", "all"}, ""},
		{[]string{"all", "click"}, []string{"all", "click"}, ""},
		{[]string{"all", "CLICK"}, nil, `select output "CLICK": the model has no such output, want one of "click", "rest", "all"`},
		{[]string{"all", "all"}, nil, `select output "all": it is asked for twice, want it once`},
		{[]string{""}, nil, `select output "": the model has no such output, want one of "click", "rest", "all"`},
	} {
		var r Request
		for _, o := range c.ask {
			r.Outputs = append(r.Outputs, []byte(o))
		}
		got, err := r.SelectOutputs(nil, threeOutputs)
		if c.msg != "" {
			if e, ok := err.(*Error); !ok || e.Reason != ReasonOutput || e.Msg != c.msg {
				t.Errorf("%q: got error %v, want %s", c.ask, err, c.msg)
			}
			continue
		}
		var names []string
		for _, o := range got {
			names = append(names, o.Name)
		}
		if err != nil || !slices.Equal(names, c.want) {
			t.Errorf("%q: got %q, %v, want %q", c.ask, names, err, c.want)
		}
	}
}

func TestRepliesAllocateNothing(t *testing.T) {
	p := &Response{Model: "m", Version: "3", ID: []byte("id"), Rows: 40, Columns: 4, Outputs: threeOutputs}
	scores := scoreMatrix(40, 4)
	buf := make([]byte, 0, 8192)
	if n := testing.AllocsPerRun(100, func() {
		p.Fill(AppendPredictResponse(buf, p), 0, scores)
		p.Fill(AppendModelInferResponse(buf, p), 0, scores)
	}); n != 0 {
		t.Errorf("got %v allocations, want 0", n)
	}
}
