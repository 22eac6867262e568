package supervisor

import (
	"fmt"
	"slices"
	"time"

	"rankd/internal/stats"
	"rankd/internal/steer"
	"rankd/shmring"
)

// Status is what the server says about itself: the status page shows it, and as JSON it is stable. It is immutable.
type Status struct {
	Phase     string    `json:"phase"`
	Ready     bool      `json:"ready"`
	Reason    string    `json:"reason,omitempty"` // why it is not ready
	StartedAt time.Time `json:"started_at"`
	Instance  string    `json:"instance"`
	Listen    string    `json:"listen"`
	PID       int       `json:"pid"`

	Model      Model            `json:"model"`
	Executor   string           `json:"executor"`
	OwnerState string           `json:"owner_state"`
	Tables     *Memory          `json:"tables,omitempty"`
	Copies     []Memory         `json:"table_copies,omitempty"` // on other nodes
	Region     *Memory          `json:"region,omitempty"`
	Steering   steer.State      `json:"steering"`            // how new connections are spread
	Placement  *PlacementStatus `json:"placement,omitempty"` // what was asked and decided; what became of it stands with processes and memory
	Processes  []ProcessStatus  `json:"processes"`
	Programs   []ProgramStatus  `json:"programs,omitempty"`
	Traffic    Traffic          `json:"traffic"`
	Events     []Event          `json:"events,omitempty"` // the newest first
}

// PlacementStatus is where everything is to be.
type PlacementStatus struct {
	Asked       string   `json:"asked"`           // --placement
	AskedTables string   `json:"asked_tables"`    // --tables-placement
	Plan        []string `json:"plan"`            // for people
	Notes       []string `json:"notes,omitempty"` // the part of it that one may not expect
}

// ProcessStatus is one place.
type ProcessStatus struct {
	Role        string    `json:"role"`
	Index       int       `json:"index"`
	PID         int       `json:"pid"` // 0: none
	Incarnation uint32    `json:"incarnation"`
	State       string    `json:"state"`
	Restarts    int       `json:"restarts"`
	StartedAt   time.Time `json:"started_at,omitzero"`
	LastEnd     string    `json:"last_end,omitempty"`
	Connections int64     `json:"connections"`    // open at this frontend
	Accepted    uint64    `json:"accepted"`       // connections that the processes of this place have accepted
	Cores       float64   `json:"cpu_cores"`      // that it was busy on in the last second
	Anon        int64     `json:"anon_bytes"`     // memory of its own
	CPUs        string    `json:"cpus,omitempty"` // on which the process may run, as the kernel has it since it became ready
}

// ProgramStatus is a compiled batch size and where its program came from: "bundle", "cache" or "compiler".
type ProgramStatus struct {
	Rows   int    `json:"rows"`
	Source string `json:"source"`
}

// Traffic is what went through the server lately.
type Traffic struct {
	Seconds   float64        `json:"seconds"` // length of the time that the rates are over
	Requests  float64        `json:"requests_per_second"`
	Rows      float64        `json:"rows_per_second"`
	BatchRows float64        `json:"rows_per_batch"`
	Stages    []StageLatency `json:"stages"`
	// BatchSizes are batches by their rows, lately; since the start if there was none lately.
	BatchSizes []BatchSizes      `json:"batch_sizes"`
	Outcomes   map[string]uint64 `json:"outcomes"` // since the start
	Panics     uint64            `json:"panics"`
	Compiles   uint64            `json:"compiles_after_ready"`
}

// BatchSizes counts batches that had at most so many rows, and more than the size before.
type BatchSizes struct {
	UpTo    int    `json:"rows_at_most"`
	Batches uint64 `json:"batches"`
}

// words are the rows of such a batch.
func (b *BatchSizes) words() string {
	if low := b.UpTo/2 + 1; low < b.UpTo {
		return fmt.Sprintf("%d to %d rows", low, b.UpTo)
	}
	return fmt.Sprintf("%d rows", b.UpTo)
}

// maxBatchPower is the largest size that is told apart: 4,096 rows; larger batches count there.
const maxBatchPower = 12

func batchSizes(d stats.Distribution) []BatchSizes {
	var list []BatchSizes
	before := uint64(0)
	for k := range maxBatchPower + 1 {
		n := d.AtMost(1 << k)
		if k == maxBatchPower {
			n = d.Count
		}
		list = append(list, BatchSizes{1 << k, n - before})
		before = n
	}
	return list
}

// StageLatency is the time that requests spent in a stage, in nanoseconds; estimates are at most a quarter too large.
type StageLatency struct {
	Stage string `json:"stage"`
	Count uint64 `json:"count"`
	P50   uint64 `json:"p50_ns"`
	P99   uint64 `json:"p99_ns"`
}

const (
	historyEvery = time.Second
	historyLong  = 10
)

// history holds readings of the counters, the oldest first.
type history struct {
	at    []time.Time
	reads []*stats.Snapshot
}

// sample takes a reading now and then.
func (l *loop) sample(now time.Time) {
	h := &l.history
	if n := len(h.at); n > 0 && now.Sub(h.at[n-1]) < historyEvery {
		return
	}
	if len(h.at) > historyLong {
		h.at, h.reads = slices.Delete(h.at, 0, 1), slices.Delete(h.reads, 0, 1)
	}
	h.at, h.reads = append(h.at, now), append(h.reads, l.page.Read())
	if n := len(h.at); n > 1 {
		x := sampleOf(h.reads[n-2], h.reads[n-1], now, now.Sub(h.at[n-2]))
		x.CPU = l.meter.read(l.pids(), now)
		l.keepSample(x)
		l.watchOverload(h.reads[n-2], h.reads[n-1], now)
	}
}

// pids are those of the server's processes.
func (l *loop) pids() []int {
	list := []int{l.self.PID}
	for _, p := range append([]*place{l.owner}, l.frontends...) {
		if p != nil && p.process != nil {
			list = append(list, p.process.PID)
		}
	}
	return list
}

func (h *history) traffic() Traffic {
	t := Traffic{Outcomes: map[string]uint64{}}
	if len(h.at) == 0 {
		return t
	}
	last := len(h.at) - 1
	old, recent := h.reads[0], h.reads[last]
	for _, o := range stats.Outcomes() {
		t.Outcomes[o.String()] = recent.Frontends.Requests(o)
	}
	t.Panics = recent.Frontends.Counter(stats.Panics)
	t.Compiles = recent.Owner.Counter(stats.CompilesAfter)
	for stage := range stats.BatchSize {
		d := recent.Stage(stage).Since(old.Stage(stage))
		t.Stages = append(t.Stages, StageLatency{stage.String(), d.Count, d.Quantile(0.5), d.Quantile(0.99)})
	}
	sizes := recent.Stage(stats.BatchSize)
	if lately := sizes.Since(old.Stage(stats.BatchSize)); lately.Count > 0 {
		sizes = lately
	}
	t.BatchSizes = batchSizes(sizes)
	if t.Seconds = h.at[last].Sub(h.at[0]).Seconds(); t.Seconds == 0 {
		return t
	}
	t.Requests = float64(recent.Frontends.Ended()-old.Frontends.Ended()) / t.Seconds
	t.Rows = float64(recent.Frontends.Rows()-old.Frontends.Rows()) / t.Seconds
	if batches := recent.Owner.Counter(stats.Batches) - old.Owner.Counter(stats.Batches); batches > 0 {
		t.BatchRows = float64(recent.Owner.Counter(stats.BatchRows)-old.Owner.Counter(stats.BatchRows)) / float64(batches)
	}
	return t
}

// publish stores a copy of what the loop knows for the HTTP handlers.
func (l *loop) publish(now time.Time) {
	s := &Status{
		Phase: string(l.phase), StartedAt: l.startedAt, Instance: l.instance, Listen: l.address, PID: l.self.PID,
		Model: l.deps.Model, Executor: l.deps.Executor, OwnerState: l.ownerState.String(), Traffic: l.history.traffic(),
		Steering: l.steering.State(), Placement: placementStatus(l.deps.Placement),
	}
	if l.tables != nil {
		s.Tables = &l.tables.Memory
		for _, c := range l.tables.More {
			s.Copies = append(s.Copies, c.Memory)
		}
	}
	if l.region != nil {
		s.Region = &l.region.Memory
	}
	for _, p := range append([]*place{l.owner}, l.frontends...) {
		ps := ProcessStatus{
			Role: p.role, Index: p.index, Incarnation: p.incarnation, State: p.state(now), Restarts: p.restarts, LastEnd: p.last, CPUs: p.cpus.String(),
		}
		if p.process != nil {
			ps.PID, ps.StartedAt = p.process.PID, p.process.started
			ps.Cores, ps.Anon = l.meter.cores[ps.PID], l.meter.used[ps.PID].anon
		}
		if p.role == roleFrontend {
			block := l.page.Frontend(p.index)
			ps.Connections, ps.Accepted = block.Gauge(stats.OpenConnections), block.Load(stats.Connections)
		}
		s.Processes = append(s.Processes, ps)
	}
	for _, p := range l.page.Owner().Programs() {
		s.Programs = append(s.Programs, ProgramStatus{p.Rows, p.Source.String()})
	}
	if l.happened != nil {
		s.Events = l.happened.all()
	}
	s.Reason = l.reason(now)
	s.Ready = s.Reason == ""
	if l.written != "" && l.phase != l.written {
		l.writeState() // first: whoever has seen the page finds the file no older
	}
	l.status.Store(s)
}

// reason says why the server is not ready, or "". While a device owner that was ready is started again, requests wait for
// it and the server stays ready; while it backs off, they are refused.
func (l *loop) reason(now time.Time) string {
	switch {
	case l.phase == phaseLoading:
		return l.loadingText()
	case l.phase == phaseRebuilding, l.phase == phaseDraining, l.phase == phaseStopped:
		return string(l.phase)
	case l.ownerState != shmring.OwnerUp && l.ownerState != shmring.OwnerRestarting:
		return fmt.Sprintf("device owner: %s", describe(l.owner, now))
	}
	ready, worst := 0, ""
	for _, p := range l.frontends {
		if p.ready {
			ready++
		} else if worst == "" {
			worst = fmt.Sprintf("%s: %s", p, describe(p, now))
		}
	}
	if l.phase == phaseStarting || ready == 0 {
		return worst
	}
	return ""
}

func describe(p *place, now time.Time) string {
	text := p.state(now)
	if p.last != "" {
		text += ", the last one ended with " + p.last
	}
	if wait := p.startAt.Sub(now); p.process == nil && wait > 0 {
		text += fmt.Sprintf(", next start in %.1f s", wait.Seconds())
	}
	return text
}

// writeState stores the state file. Without it the server works, but the inspector does not find it.
func (l *loop) writeState() {
	s := &State{
		Version: stateVersion, Instance: l.instance, PID: l.self.PID, Start: l.self.Start, StartedAt: l.startedAt,
		Listen: l.address, HTTP: l.http.address(), Model: l.deps.Model, Phase: string(l.phase), RegionFD: -1, TablesFD: -1,
		StatsFD: int(l.statsFile.Fd()), Children: []Child{},
	}
	if l.region != nil {
		s.RegionFD = l.region.FD
	}
	if l.tables != nil {
		s.TablesFD = l.tables.FD
		for _, c := range l.tables.More {
			s.CopyFDs = append(s.CopyFDs, c.FD)
		}
	}
	for _, p := range append([]*place{l.owner}, l.frontends...) {
		if p.process != nil {
			s.Children = append(s.Children, Child{p.role, p.index, p.incarnation, p.process.PID, p.process.Start})
		}
	}
	l.written = l.phase
	if err := s.write(l.runDir); err != nil {
		l.log.Warn("state file cannot be written", "error", err)
	}
}
