package stats

// Snapshot is the whole server at one time: every frontend's words summed, beside the owner's and the supervisor's.
type Snapshot struct {
	Frontends  Totals
	Owner      Totals
	Supervisor Totals
}

// Totals is the words of one or more blocks.
type Totals struct {
	counters   [counterSlots]uint64
	gauges     [gaugeSlots]int64
	histograms [histogramSlots]Distribution
}

// Read sums the blocks of the page.
func (p *Page) Read() *Snapshot {
	s := &Snapshot{}
	for i := range MaxFrontends {
		s.Frontends.add(p.Frontend(i))
	}
	s.Owner.add(p.Owner())
	s.Supervisor.add(p.Supervisor())
	return s
}

func (t *Totals) add(b *Block) {
	for i := range b.counters {
		t.counters[i] += b.counters[i].Load()
	}
	for i := range b.gauges {
		t.gauges[i] += b.gauges[i].Load()
	}
	for i := range b.histograms {
		t.histograms[i].add(&b.histograms[i])
	}
}

// Counter is the sum of a counter.
func (t *Totals) Counter(c Counter) uint64 { return t.counters[c] }

// Gauge is the sum of a gauge.
func (t *Totals) Gauge(g Gauge) int64 { return t.gauges[g] }

// Stage is a histogram summed over the frontends and the owner: each stage is observed by whoever sees its end.
func (s *Snapshot) Stage(h Histogram) Distribution {
	d := s.Frontends.histograms[h]
	d.merge(&s.Owner.histograms[h])
	return d
}

// Requests is the number of requests that ended in an outcome, over all APIs.
func (t *Totals) Requests(o Outcome) uint64 {
	var n uint64
	for a := range apiCount {
		n += t.counters[Requests(a, o)]
	}
	return n
}

// Ended is the number of requests that ended, in whatever outcome.
func (t *Totals) Ended() uint64 {
	var n uint64
	for o := range outcomeCount {
		n += t.Requests(o)
	}
	return n
}

// Rows is the number of rows admitted, over all APIs.
func (t *Totals) Rows() uint64 {
	var n uint64
	for a := range apiCount {
		n += t.counters[Rows(a)]
	}
	return n
}

// Outcomes lists every outcome in order.
func Outcomes() []Outcome {
	all := make([]Outcome, outcomeCount)
	for i := range all {
		all[i] = Outcome(i)
	}
	return all
}
