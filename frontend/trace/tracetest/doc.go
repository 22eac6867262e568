// Package tracetest is a collector for tests: it takes spans over OTLP, as those that people run do.
//
// # Invariants
//
//	I1  Every span that was taken can be found by its name, until the test ends.
package tracetest
