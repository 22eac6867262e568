package exam

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"rankd/internal/dtype"
	"rankd/model"
	"rankd/model/reference"
)

// Method paths of the two protocols.
const (
	rankdPath  = "/rankd.v1.PredictionService/Predict"
	kservePath = "/inference.GRPCInferenceService/ModelInfer"
)

// minRequests is how many different requests there are at least, however many examples each of them has.
const minRequests = 256

// maxOutputs is how many outputs a reply can be searched for.
const maxOutputs = 64

// Set is examples with their expectations.
type Set struct {
	o        Options
	m        *model.Manifest
	examples []reference.Example
	scores   []float32 // [examples, columns]
	columns  int
	outputs  []output
	users    users
	simLimit float64 // tolerance of a score of the simulated accelerator
}

// output is a run of columns.
type output struct {
	name         string
	first, width int
}

// New draws the examples and computes their scores. That takes seconds, or minutes for a large network; see Options.CacheDir.
// It ends when ctx does, and then keeps nothing.
func New(ctx context.Context, b *model.Bundle, o Options) (*Set, error) {
	_, fixed := b.Manifest.IDColumns()
	if o.Form == "" {
		o.Form = Tables
		if fixed && o.Workload != SharedUser {
			o.Form = Packed
		}
	}
	if o.Workload == "" {
		o.Workload = Independent
	}
	if err := errors.Join(o.check(fixed), checkUsers(b.Manifest, &o)); err != nil {
		return nil, fmt.Errorf("make requests: %w", err)
	}
	if n := len(b.Manifest.Outputs); n > maxOutputs {
		return nil, fmt.Errorf("make requests: outputs: got %d, want at most %d", n, maxOutputs)
	}
	s := &Set{o: o, m: b.Manifest, columns: b.Manifest.ScoreColumns(), users: newUsers(b.Manifest, &o), simLimit: simTolerance}
	for i := range b.Manifest.Tables {
		if b.Manifest.PooledDType(&b.Manifest.Tables[i]) == dtype.BFloat16 {
			s.simLimit = simHalfTolerance
		}
	}
	for _, out := range b.Manifest.Outputs {
		s.outputs = append(s.outputs, output{out.Name, out.Column, out.Columns()})
	}
	var err error
	if s.examples, err = draw(ctx, b.Manifest, &o, &s.users); err != nil {
		return nil, fmt.Errorf("make requests: %w", err)
	}
	if s.scores, err = expect(ctx, b, &o, s.examples); err != nil {
		return nil, fmt.Errorf("make requests: %w", err)
	}
	return s, nil
}

// Path is the path of the method that the requests are for.
func (s *Set) Path() string {
	if s.o.Protocol == KServe {
		return kservePath
	}
	return rankdPath
}

// Options are those that the set was made with.
func (s *Set) Options() Options { return s.o }

// Requests are the calls of a measurement, all of the same number of examples.
type Requests struct {
	set      *Set
	Rows     int
	Messages [][]byte
	picks    [][]int32
	Bytes    float64 // of a message, on average
}

// Requests encodes calls of some examples each. Every example is in about as many of them as any other.
func (s *Set) Requests(rows int) (*Requests, error) {
	if rows < 1 {
		return nil, fmt.Errorf("make requests: examples a request: got %d, want at least 1", rows)
	}
	n := max(len(s.examples)/rows, minRequests)
	r := &Requests{set: s, Rows: rows, Messages: make([][]byte, n)}
	rng := rand.New(rand.NewPCG(s.o.Seed, 1<<63|uint64(rows)))
	if s.users.count == 0 {
		r.picks = deal(len(s.examples), n, rows, rng)
	} else {
		picks, err := s.users.deal(n, rows, rng)
		if err != nil {
			return nil, err
		}
		r.picks = picks
	}
	err := inParallel(context.Background(), n, func(i int) (err error) {
		r.Messages[i], err = s.encode(r.picks[i])
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, m := range r.Messages {
		r.Bytes += float64(len(m)) / float64(n)
	}
	return r, nil
}

// Set is the one that the requests were made from.
func (r *Requests) Set() *Set { return r.set }
