// Package h2wire speaks HTTP/2 as unary gRPC needs it, at a cost of a few microseconds of CPU a call: frames are read where
// they lie in the receive buffer and written into one send buffer a connection, which goes out in one system call for
// everything that one turn of the loop produced. It has a client, and the parts of which a server can be made.
//
// # Nouns
//
//   - frame: nine bytes of header and a payload; frame.go reads and writes them and knows no state.
//   - field block: the HPACK form of headers. Encoder writes the constant headers of a method as indices once the peer has
//     seen them; Decoder reads a block that may be spread over CONTINUATION frames.
//   - window: bytes that one side may still send, of a stream and of the connection.
//   - session: the protocol state of one connection without its socket: bytes in, bytes out. Client is one.
//   - loop: an epoll set that moves the bytes of many sessions on one goroutine.
//   - call: one request and its reply; the end of it is told to a Handler with the caller's tag.
//
// # Invariants
//
//	I1  Every call that Start accepted ends with exactly one Done, also when the connection ends or its deadline passes.
//	I2  Nothing is sent beyond a window, and nothing grows with what the peer claims: a frame is at most as long as we allow, a
//	    field block, a reply, and what waits to be sent have limits of their own.
//	I3  No bytes from the peer make a session panic, read outside the bytes given, or answer without bound.
//	I4  A warm session allocates nothing for a call whose reply has no error.
//	I5  Field blocks are decoded in the order of arrival, also those of streams that are gone: they change the decoder.
//	I6  The message of a call is not read after its Done.
//
// # Layout
//
// frame.go, settings.go: frames. encoder.go, decoder.go: field blocks. window.go: flow control. grpc.go: message prefix,
// status, timeouts. client.go (calls), receive.go (frames from the server), send.go (bodies within windows), ending.go (how calls end).
// loop.go, socket.go, timer.go: the only files with system calls.
//
// # Concurrency
//
// A Loop and all its sessions belong to the goroutine that calls Turn; Handlers run on it, inside Feed or Expire, and may start new
// calls. Post is the one door for other goroutines.
//
// # Failure
//
// A peer that breaks the protocol ends its connection: GOAWAY is sent, and every open call ends with UNAVAILABLE. A stream that
// breaks it ends that call alone with INTERNAL. A lost socket and a GOAWAY end calls as gRPC says: UNAVAILABLE.
package h2wire
