package frontend

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"google.golang.org/protobuf/proto"

	"rankd/frontend/wire/rankdpb"
	"rankd/model"
)

// warm sends requests of several sizes through the core, to the device and back, and checks that every score is a finite
// number. It goes the way of every request but the transport, so it touches the tables, the region and the device's
// programs, and fills the pools of the hot path.
//
// Rows are made of the ids 0 and the last one of each table and of zeros as dense features.
func (c *Core) warm(ctx context.Context) error {
	for _, rows := range warmSizes(c.cfg.MaxRequestRows, c.shape) {
		if err := c.warmOnce(ctx, rows); err != nil {
			return fmt.Errorf("warm up with %d rows: %w", rows, err)
		}
	}
	return nil
}

// warmSizes are a single row, a chunk and one row more, and a request that spans two batches, as far as they are allowed.
func warmSizes(limit int, sh shape) []int {
	most := min(limit, sh.capacity+1)
	if sh.whole {
		most = min(limit, sh.capacity)
	}
	var sizes []int
	for _, n := range []int{1, 2, sh.chunk, sh.chunk + 1, most} {
		sizes = append(sizes, min(n, most))
	}
	slices.Sort(sizes)
	return slices.Compact(sizes)
}

func (c *Core) warmOnce(ctx context.Context, rows int) error {
	request, err := proto.Marshal(WarmRequest(c.model, rows))
	if err != nil {
		return err
	}
	w := &warmWaiter{done: make(chan struct{})}
	deadline, _ := ctx.Deadline()
	ticket := c.ScoreUnary(apiWarm, request, deadline, w)
	select {
	case <-w.done:
	case <-ctx.Done():
		ticket.Cancel()
		<-w.done
	}
	if w.err != nil {
		return w.err
	}
	var reply rankdpb.PredictResponse
	if err := proto.Unmarshal(w.body, &reply); err != nil {
		return fmt.Errorf("decode reply: %w", err)
	}
	for _, o := range c.model.Outputs {
		data := reply.GetOutputs()[o.Name].GetData()
		if want := 4 * rows * o.Columns(); len(data) != want {
			return fmt.Errorf("read output %q: got %d bytes, want %d", o.Name, len(data), want)
		}
		for i := 0; i < len(data); i += 4 {
			v := math.Float32frombits(binary.LittleEndian.Uint32(data[i:]))
			if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
				return fmt.Errorf("read output %q: value %d is %v, want a finite number", o.Name, i/4, v)
			}
		}
	}
	return nil
}

type warmWaiter struct {
	done chan struct{}
	body []byte
	err  *Error
}

func (w *warmWaiter) Reply(body []byte, err *Error) {
	w.body, w.err = slices.Clone(body), err
	close(w.done)
}

// WarmRequest is a request of so many rows that every model of that manifest takes.
func WarmRequest(m *model.Manifest, rows int) *rankdpb.PredictRequest {
	in := map[string]*rankdpb.HostBufferProto{}
	for i := range m.Tables {
		t := &m.Tables[i]
		hot := max(t.Hotness, 1)
		ids := make([]byte, 0, 8*rows*hot)
		for k := range rows * hot {
			ids = binary.LittleEndian.AppendUint64(ids, uint64(int64(k%2)*(t.Rows-1)))
		}
		if t.Hotness > 0 {
			in[t.Name] = &rankdpb.HostBufferProto{Dtype: rankdpb.DType_DTYPE_INT64, Shape: []int64{int64(rows), int64(hot)}, Data: ids}
			continue
		}
		in[t.Name+".values"] = &rankdpb.HostBufferProto{Dtype: rankdpb.DType_DTYPE_INT64, Shape: []int64{int64(rows)}, Data: ids}
		ones := make([]byte, 0, 4*rows)
		for range rows {
			ones = binary.LittleEndian.AppendUint32(ones, 1)
		}
		in[t.Name+".lengths"] = &rankdpb.HostBufferProto{Dtype: rankdpb.DType_DTYPE_INT32, Shape: []int64{int64(rows)}, Data: ones}
	}
	for i := range m.Dense {
		d := &m.Dense[i]
		in[d.Name] = &rankdpb.HostBufferProto{
			Dtype: rankdpb.DType_DTYPE_FLOAT32, Shape: []int64{int64(rows), int64(d.Width)}, Data: make([]byte, 4*rows*d.Width),
		}
	}
	return &rankdpb.PredictRequest{ModelName: m.Name, Inputs: in}
}
