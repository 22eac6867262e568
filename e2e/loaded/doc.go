// Package loaded starts real servers under a light load, for tests that look at them from outside: with a browser, with Prometheus.
//
// # Invariants
//
//	I1  What a test has started ends with it: the load first, then the server, which must leave nothing behind.
package loaded
