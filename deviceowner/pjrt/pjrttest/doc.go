// Package pjrttest finds a PJRT plugin for tests and skips them, saying how to get one, where there is none.
//
// # Nouns
//
//   - plugin: the CPU plugin, or libtpu, that deploy/plugins installs.
//
// # Invariants
//
//	I1  A test is skipped only when no plugin file is there; one that is there and does not load fails the test.
//
// # Failure
//
// With RANKD_REQUIRE_PLUGIN set, as in CI, a missing CPU plugin fails the test instead; with RANKD_REQUIRE_TPU_PLUGIN, a missing libtpu.
package pjrttest
