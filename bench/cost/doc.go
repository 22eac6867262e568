// Command cost measures what it costs a server to be observed: counters and histograms, a scrape a second, and traces. Run it with make
// observe-cost.
//
// # Nouns
//
//   - bare: a build without counters and histograms (build tag nostats).
//   - question: two ways to run a server that are compared, in pairs.
//
// # Invariants
//
//	I1  The two servers of a pair run one after the other, with the same load, in an order that changes; a third run of the first tells what
//	    the machine alone differs by. Package compare says how that becomes an interval.
//	I2  What observes (the scraper, the collector) runs on the client's processors, and takes what it is sent.
//
// # Failure
//
// A reply that is wrong ends it. What was answered before is printed.
package main
