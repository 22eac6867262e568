// Package frontend takes scoring requests from clients, looks their rows up, submits them to the device through the shared
// region, and answers. A frontend is one of several processes; it never touches the device.
//
// # Nouns
//
//   - core: one function, ScoreUnary, below all transports, and what it needs to see each request to one reply.
//   - call: one request on its way. Calls are pooled; a call has no goroutine.
//   - chunk: a run of rows of a call that is looked up and reserved together. Chunks of one call may lie in several batches.
//   - shared vectors: those of inputs that have one row for all rows of a call, such as a user's; looked up once a call, copied
//     into its rows chunk by chunk.
//   - gather worker: one of a fixed number of goroutines that place the chunks that ScoreUnary left over.
//   - ticket: what a transport keeps of a call to cancel it.
//   - responder: the transport's end of a call.
//
// # The path of a request
//
//	ScoreUnary: state and bytes admitted → decode → bind → rows admitted → ids validated → reply laid out
//	  → bags that serve every row: pooled into the call
//	  → chunk by chunk: resolve → reserve → sweep and dense copy into the slab's rows → commit
//	  → no room, or many chunks, or a large request while processors are idle: the call waits in a queue, and gather workers go on with it
//	Poll (any goroutine): scores → into the reply → last chunk: Reply
//
// A request is admitted whole or refused whole, before any lookup. Its bytes are capped before they are decoded, its rows
// before an id is read.
//
// # Invariants
//
//	I1  Each ScoreUnary leads to exactly one Reply, whatever the device, the client or the clock do.
//	I2  A request's bytes are read only until ScoreUnary returns, or, if the ticket says Retained, until Reply.
//	I3  No goroutine waits for anything while it holds a reservation.
//	I4  A call object is used for another request only when the region, the queue, the timers and all gatherers have let go of it.
//	I5  Scores reach the reply of the call that wrote the rows, at the rows' places; scores of a failed call reach nobody.
//	I6  Rows and bytes that were admitted are given back exactly once.
//	I7  No panic of a decoder, a binder or a lookup ends the process or leaves a reservation open.
//	I8  Every error that a client sees has a gRPC code and a reason; errors.go is the one place where they are made.
//
// # Layout
//
// core.go, admission.go, rate.go: taking requests. call.go: the life of one. chunks.go, queue.go: lookups and who waits.
// loops.go, wheel.go: the goroutines of the core and the deadlines. ring.go: the region as the core sees it. errors.go,
// reasons.go: what clients are told. grpc_*.go, health.go, kserve.go: the grpc-go transport and its services. warm.go,
// run.go: the process.
//
// # Concurrency
//
// ScoreUnary, Cancel and Poll may run on any number of goroutines. A call's mutex guards its progress; it is never held
// while rows are looked up or a responder is called. Lock order: call, then queue, wheel or gate; those three are leaves.
// The goroutines of the core: one waits for the bell, one ends calls at their deadlines, a few gather.
//
// Calls that wait for room take turns chunk by chunk, so a request of 100,000 rows and one of 1 row share the region. A
// request that finds others waiting goes behind them.
//
// # Failure
//
// A dead frontend loses the calls that it held: their connections break, and clients see UNAVAILABLE. Rows that it had
// committed are scored and dropped. Its successor inherits the listening socket, so connections that nobody had accepted
// are served. A dead device owner costs latency; while it backs off, calls are refused after a grace of at most two seconds.
// A region that makes no sense ends the process with the exit code that has the supervisor rebuild it.
package frontend
