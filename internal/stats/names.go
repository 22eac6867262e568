package stats

// API is the service through which a request came.
type API int

// The APIs, in the order of their words.
const (
	APIRankd API = iota
	APIKServe
	apiCount
)

var apiNames = [apiCount]string{"rankd", "kserve"}

func (a API) String() string { return apiNames[a] }

// Outcome is how a request ended: ok, or the reason of its refusal.
type Outcome int

// The outcomes, in the order of their words. Every reason invalid_<what> counts as OutcomeInvalid.
const (
	OutcomeOK Outcome = iota
	OutcomeInvalid
	OutcomeRequestTooLarge
	OutcomeFrontendPendingFull
	OutcomeServerTotalQueueFull
	OutcomeDeadlineUnreachable // refused at once: the estimated wait was longer than the deadline left
	OutcomeDeadlineExceeded    // admitted, but the deadline came first
	OutcomeDeviceError
	OutcomeDraining
	OutcomeDeviceRestarting
	OutcomeCancelled
	OutcomeInternal
	outcomeCount
)

var outcomeNames = [outcomeCount]string{
	"ok", "invalid", "request_too_large", "frontend_pending_full", "server_total_queue_full", "deadline_unreachable",
	"deadline_exceeded", "device_error", "draining", "device_restarting", "cancelled", "internal",
}

func (o Outcome) String() string { return outcomeNames[o] }

// Counter is the place of a counter in a block.
type Counter int

// Each API has apiSlots counters: its outcomes, then three amounts.
const (
	outcomeSlots = 16
	apiSlots     = 20
	maxAPIs      = 4
)

// Requests counts requests of an API that ended in an outcome.
func Requests(a API, o Outcome) Counter { return Counter(int(a)*apiSlots + int(o)) }

// Rows counts rows of requests that were admitted.
func Rows(a API) Counter { return Counter(int(a)*apiSlots + outcomeSlots) }

// RequestBytes counts the message bytes of requests, admitted or not.
func RequestBytes(a API) Counter { return Counter(int(a)*apiSlots + outcomeSlots + 1) }

// ReplyBytes counts the message bytes of replies.
func ReplyBytes(a API) Counter { return Counter(int(a)*apiSlots + outcomeSlots + 2) }

// Counters outside the families. A frontend's come first, then those of the owner, then those of the supervisor.
const (
	Panics             Counter = maxAPIs*apiSlots + iota // recovered in a handler; must stay 0
	Connections                                          // accepted
	WakesBell                                            // parked, and woken by the doorbell
	WakesTimer                                           // parked, woken by the timer, nothing to do
	WakesTimerWithWork                                   // parked, woken by the timer although work was there: a lost wake-up
	ReturnStalls                                         // a connection was not read because its replies were not taken

	Batches
	BatchRows         // rows with a request behind them
	PaddedRows        // rows added to fill the bucket
	CompilesBefore    // programs compiled before READY
	CompilesAfter     // programs compiled after READY; must stay 0
	DeviceErrors      // batches that the device refused
	Graces            // grace periods after a death
	Reruns            // batches executed again by a successor
	RefusedCrashers   // reservations refused because they crash the device alone
	StragglerRequests // frontends whose kill the owner asked for

	RestartsFrontend
	RestartsOwner
	KillsHang      // owner killed because a launch was too old
	KillsStraggler // frontend killed because the owner asked for it
	counterEnd
)

// Gauge is the place of a gauge in a block.
type Gauge int

// The gauges.
const (
	PendingRows Gauge = iota // admitted, not yet answered
	InFlightCalls
	OpenConnections
	ReturnBytes // reply bytes not yet taken by peers
	Draining    // 1 while the process drains
	LaunchesInFlight
	gaugeEnd
)

// Histogram is the place of a histogram in a block.
type Histogram int

// Histograms of nanoseconds, but BatchSize, which is of rows.
const (
	StageDecode Histogram = iota
	StageLookup
	StageWait // from commit until the batch is launched
	StageDevice
	StageReply
	StageTotal
	StageReturn // replies waiting for a peer that does not read
	BatchSize
	histogramEnd
)

var stageNames = [...]string{"decode", "lookup", "wait", "device", "reply", "total", "return"}

func (h Histogram) String() string {
	if h == BatchSize {
		return "batch_size"
	}
	return stageNames[h]
}

// The families fit their slots: each index must be exactly zero when it does.
var (
	_ = [outcomeSlots - outcomeCount + 1]struct{}{}
	_ = [maxAPIs - apiCount + 1]struct{}{}
	_ = [counterSlots - counterEnd + 1]struct{}{}
	_ = [gaugeSlots - gaugeEnd + 1]struct{}{}
	_ = [1]struct{}{}[histogramSlots-histogramEnd]
)
