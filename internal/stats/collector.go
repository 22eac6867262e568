package stats

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

// Collector exports a page to Prometheus. The series are fixed by the constants of this package and by the number of
// frontends, whatever clients send (I5).
type Collector struct {
	page      *Page
	frontends int
}

// NewCollector exports the blocks of the first frontends frontends, the owner and the supervisor. The page must stay
// mapped as long as the collector is registered.
func NewCollector(p *Page, frontends int) *Collector {
	return &Collector{page: p, frontends: frontends}
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("rankd_"+name, help, labels, nil)
}

var (
	requestsDesc     = desc("requests_total", "Requests that ended, by API and outcome.", "api", "outcome")
	rowsDesc         = desc("rows_total", "Rows of admitted requests.", "api")
	requestBytesDesc = desc("request_bytes_total", "Message bytes of requests.", "api")
	replyBytesDesc   = desc("reply_bytes_total", "Message bytes of replies.", "api")
	perFrontendDesc  = desc("frontend_requests_total", "Requests that ended, by frontend.", "frontend")
	pendingDesc      = desc("frontend_pending_rows", "Rows admitted and not yet answered.", "frontend")
	openDesc         = desc("frontend_connections", "Open connections, by frontend.", "frontend")
	acceptedDesc     = desc("frontend_connections_total", "Connections accepted, by frontend.", "frontend")
	launchesDesc     = desc("device_launches_total", "Launches by rows of the compiled batch size.", "bucket")
	programsDesc     = desc("programs", "Compiled batch sizes that are ready, by where their programs came from.", "source")
	stageDesc        = desc("stage_seconds", "Time that requests spend in each stage.", "stage")
	batchSizeDesc    = desc("batch_rows", "Rows with a request behind them, a batch.")
)

type counterExport struct {
	from    func(*Snapshot) *Totals
	counter Counter
	desc    *prometheus.Desc
}

type gaugeExport struct {
	from  func(*Snapshot) *Totals
	gauge Gauge
	desc  *prometheus.Desc
}

func ofFrontends(s *Snapshot) *Totals  { return &s.Frontends }
func ofOwner(s *Snapshot) *Totals      { return &s.Owner }
func ofSupervisor(s *Snapshot) *Totals { return &s.Supervisor }

var counterExports = []counterExport{
	{ofFrontends, Panics, desc("panics_total", "Panics recovered in request handlers; must stay 0.")},
	{ofFrontends, Connections, desc("connections_total", "Connections accepted.")},
	{ofFrontends, WakesBell, desc("frontend_wakes_bell_total", "Parked frontends woken by their doorbell.")},
	{ofFrontends, WakesTimer, desc("frontend_wakes_timer_total", "Parked frontends woken by the timer with nothing to do.")},
	{ofFrontends, WakesTimerWithWork, desc("frontend_wakes_timer_with_work_total", "Parked frontends woken by the timer although work was there.")},
	{ofFrontends, ReturnStalls, desc("return_stalls_total", "Connections not read because their replies were not taken.")},
	{ofOwner, WakesBell, desc("owner_wakes_bell_total", "The parked device owner woken by its doorbell.")},
	{ofOwner, WakesTimer, desc("owner_wakes_timer_total", "The parked device owner woken by the timer with nothing to do.")},
	{ofOwner, WakesTimerWithWork, desc("owner_wakes_timer_with_work_total", "The parked device owner woken by the timer although work was there.")},
	{ofOwner, Batches, desc("batches_total", "Batches executed.")},
	{ofOwner, BatchRows, desc("executed_rows_total", "Rows executed that have a request behind them.")},
	{ofOwner, PaddedRows, desc("padded_rows_total", "Rows executed only to fill the compiled batch size.")},
	{ofOwner, CompilesBefore, desc("compiles_before_ready_total", "Programs compiled before the device owner was ready.")},
	{ofOwner, CompilesAfter, desc("compiles_after_ready_total", "Programs compiled after the device owner was ready; must stay 0.")},
	{ofOwner, DeviceErrors, desc("device_errors_total", "Batches that the device refused.")},
	{ofOwner, Graces, desc("grace_periods_total", "Grace periods after the death of a process.")},
	{ofOwner, Reruns, desc("batch_reruns_total", "Batches executed again by a successor of a dead device owner.")},
	{ofOwner, RefusedCrashers, desc("refused_crashers_total", "Reservations refused because they crash the device alone.")},
	{ofOwner, StragglerRequests, desc("straggler_requests_total", "Stuck frontends whose end the device owner asked for.")},
	{ofSupervisor, RestartsFrontend, desc("frontend_restarts_total", "Frontends started again after an unexpected end.")},
	{ofSupervisor, RestartsOwner, desc("owner_restarts_total", "Device owners started again after an unexpected end.")},
	{ofSupervisor, KillsHang, desc("owner_hang_kills_total", "Device owners killed because a launch was too old.")},
	{ofSupervisor, KillsStraggler, desc("frontend_straggler_kills_total", "Frontends killed because they held up a batch.")},
}

var gaugeExports = []gaugeExport{
	{ofFrontends, InFlightCalls, desc("in_flight_calls", "Calls admitted and not yet answered.")},
	{ofFrontends, OpenConnections, desc("connections", "Open connections.")},
	{ofFrontends, ReturnBytes, desc("return_bytes", "Reply bytes not yet taken by peers.")},
	{ofOwner, LaunchesInFlight, desc("launches_in_flight", "Batches on the device.")},
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, ch) }

// Collect implements prometheus.Collector.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	count := func(d *prometheus.Desc, n uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	gauge := func(d *prometheus.Desc, n int64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n), labels...)
	}
	s := c.page.Read()
	for a := range apiCount {
		for o := range outcomeCount {
			count(requestsDesc, s.Frontends.Counter(Requests(a, o)), a.String(), o.String())
		}
		count(rowsDesc, s.Frontends.Counter(Rows(a)), a.String())
		count(requestBytesDesc, s.Frontends.Counter(RequestBytes(a)), a.String())
		count(replyBytesDesc, s.Frontends.Counter(ReplyBytes(a)), a.String())
	}
	for i := range c.frontends {
		var t Totals
		t.add(c.page.Frontend(i))
		count(perFrontendDesc, t.Ended(), strconv.Itoa(i))
		gauge(pendingDesc, t.Gauge(PendingRows), strconv.Itoa(i))
		gauge(openDesc, t.Gauge(OpenConnections), strconv.Itoa(i))
		count(acceptedDesc, t.Counter(Connections), strconv.Itoa(i))
	}
	for _, e := range counterExports {
		count(e.desc, e.from(s).Counter(e.counter))
	}
	for _, e := range gaugeExports {
		gauge(e.desc, e.from(s).Gauge(e.gauge))
	}
	for rows, n := range c.page.Owner().launchCounts() {
		count(launchesDesc, n, strconv.Itoa(int(rows)))
	}
	var programs [sourceCount]int64
	for _, p := range c.page.Owner().Programs() {
		programs[p.Source]++
	}
	for s := SourceCompiler; s < sourceCount; s++ {
		gauge(programsDesc, programs[s], s.String())
	}
	for h := range BatchSize {
		ch <- constHistogram(stageDesc, s.Stage(h), 12, 35, 1e-9, h.String())
	}
	ch <- constHistogram(batchSizeDesc, s.Stage(BatchSize), 0, 13, 1)
}

// launchCounts gives launches by rows of the batch size; places without a size are left out.
func (b *Block) launchCounts() map[uint32]uint64 {
	counts := map[uint32]uint64{}
	for i := range b.launches {
		if rows := b.bucketRows[i].Load(); rows != 0 {
			counts[rows] += b.launches[i].Load()
		}
	}
	return counts
}

// constHistogram exports d with bounds 2^low..2^high, each multiplied with scale.
func constHistogram(desc *prometheus.Desc, d Distribution, low, high int, scale float64, labels ...string) prometheus.Metric {
	buckets := make(map[float64]uint64, high-low+1)
	for k := low; k <= high; k++ {
		buckets[float64(uint64(1)<<k)*scale] = d.AtMost(1 << k)
	}
	return prometheus.MustNewConstHistogram(desc, d.Count, float64(d.Sum)*scale, buckets, labels...)
}
