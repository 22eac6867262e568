// Package steer spreads new connections over the frontends' listening sockets. The sockets share one address (SO_REUSEPORT);
// without this package the kernel's hash chooses among them, and a few long-lived connections often end at few of them.
//
// # Nouns
//
//   - group: the sockets of one address, in the order of the frontends.
//   - policy: the rule by which a socket is chosen (--steering).
//   - mechanism: what carries the rule out inside the kernel: an eBPF program, a classic BPF program, or the kernel's hash.
//   - load: what a frontend says of its connections, in counters that only it writes.
//   - pick: one choice of the eBPF program. The program counts its picks.
//   - correction: what is added to a socket's picks so that the sum is the number of its open connections.
//
// # Invariants
//
//	I1  Socket i of the group is that of frontend i, whatever dies: the program is attached before the first socket listens,
//	    they begin to listen in order, and none is closed before the group is given up. (The kernel numbers sockets in the
//	    order in which they began to listen, and moves the last one into the place of one that is closed. A socket with a
//	    program may begin to listen beside others only if all have SO_REUSEADDR.)
//	I2  No connection is refused for the sake of steering: whatever goes wrong in a program leaves it to the kernel's hash.
//	I3  With eBPF each choice counts at once, so connections that arrive together are spread as if they came one by one.
//	I4  A frontend that is not live is chosen only if none is.
//	I5  A pick that never became a connection is forgotten once its frontend has been quiet for settleTime.
//	I6  The policy and mechanism that State names are those in force.
//
// # Mechanisms
//
// eBPF (program.go): the kernel runs the program for the first packet of each connection. round-robin takes the next socket
// of a shared turn. least-connections takes the socket with the fewest connections, picks + correction, and among equal
// ones the next in turn. The program adds each pick at once; only what happens later has to come from outside: every tick the
// supervisor's process reads how many connections each frontend has closed and writes the corrections. An accepted
// connection changes no correction, so there is no instant at which one is counted twice or not at all.
//
// Classic BPF (classic.go) has no memory, but needs no privilege: the program names the sockets with the fewest connections
// and takes one of them at random. It is replaced when a connection has arrived, so connections that come one after the
// other are spread as with eBPF, and of those that come within a few milliseconds some at random.
//
// Rejected: the source port modulo the number of sockets (TestSpread prints it). Linux makes a client's next port a small
// random step from its last one, so that it is no better than the hash. Rejected: a program of the type
// SK_REUSEPORT with a map of sockets. It needs the same privilege and does no more here than a number returned, since no
// socket comes or goes.
//
// # Concurrency
//
// A group has one goroutine that renews corrections or programs every tick. With classic BPF there is one more for each
// socket, which sleeps until a connection arrives. Renew may be called from any goroutine: a mutex keeps renewals apart.
//
// # Failure
//
// The kernel keeps the program as long as a socket of the group is open; when the supervisor is killed, all are closed. A
// frontend killed at any instruction leaves its counters in the page: the supervisor first has the program told that it is
// not live, then clears its open connections, and the next tick takes them off. Connections that were sent to it before wait in its
// queue for the successor, as they do without steering. If corrections can no longer be written the program goes on with
// those it has, which is round robin in the long run.
package steer
