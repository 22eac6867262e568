// Package sim is a simulated accelerator: it takes the time that an accelerator would take, computes a cheap function of
// each row instead of a network, and so lets the host side be measured and tested where there is no accelerator. It is no
// model of any product, and everything that prints a figure of it must say "simulated".
//
// # Nouns
//
//   - link: the way of rows to the device, for one launch at a time: rows × Transfer, from the moment of the launch or of the
//     arrival of the launch before it, whichever is later.
//   - timeline: the one thing that the device does at a time. A launch occupies it for Call + rows × Row, from the arrival of
//     its rows or from the end of the launch before it, whichever is later. With the default Transfer of 0 the link takes no
//     time: Call and Row stand for the whole launch.
//   - scalar: a value of the row that goes into the score: column 0 of every table's pooled vector, in the manifest's order
//     of tables, then every element of every dense input, in the manifest's order. bfloat16 is widened.
//   - span: the bytes of one slot (a pooled vector or a dense input). With Verify full all of them go into the score.
//   - faults: delays, failures and crashes for tests.
//
// # The score
//
// Scalars are numbered from 0. Scalar s has the weight k(s) / 2^24 with k(s) = ((2s+1) × 0x9E3779B1 mod 2^32) >> 8 | 1, so
// that the same value in another slot counts differently. In float64 arithmetic, in the order of s:
//
//	S = 0;  S = S + (k(s) / 2^24) × v(s)      each product is exact, so a fused multiply-add gives the same
//	score of column c = float32(frac(S + c × 10368889 / 2^24))      frac(x) = x - floor(x), so 0 <= score <= 1
//
// k(s) is odd: whole numbers below 2^24 in one slot all give different scores. Two rows that differ have the same score with
// a chance of about 2^-24. The score moves smoothly with the values (up to its wrap from 1 to 0). A scalar that is NaN or
// infinite makes it NaN.
//
// With Verify full a checksum of all spans is added to S before the columns are made: over the spans in the order of their
// slots, h = 0 at first, for each 8-byte little-endian word w (the last one of a span filled up with zero bytes)
//
//	h = (rotate_left_64(h, 5) xor w) × 0x9E3779B97F4A7C15 mod 2^64;      S = S + (h >> 40) / 2^24
//
// Each step is a bijection of h, so a single word that differs always changes h. Bytes of the row outside all slots do not
// count. The score is then no longer smooth: rows must be equal bit by bit.
//
// # Invariants
//
//	I1  A launch ends no earlier than the timeline says, and launches end in their order.
//	I2  Cost counts the rows that carry requests, not the bucket's: padding is free.
//	I3  The scores of a row are a function of that row's bytes in its slots and of nothing else; padding rows' scores are not written.
//	I4  Faults come from a build with the tag "faults" or from a caller that sets Options.Faults, never from a plain build's environment.
//	I5  Link and device work at the same time for different launches: a transfer is hidden if it was launched soon enough.
//
// # Concurrency
//
// Launch is called from one goroutine, and so is Trace; one goroutine of the executor computes the scores, waits for the timeline and calls
// done. The wait is a timerfd in the runtime's poller: a sleeping goroutine would be late by up to a millisecond, since the
// runtime's timers have the resolution of epoll_wait; this one is late by some 15 µs and costs no CPU. If the host is too
// slow to compute the scores in the simulated time, the launch ends later than the timeline says.
//
// # Failure
//
// A launch that a fault fails ends with an error; one that hangs ends with an error when the executor is closed.
package sim
