//go:build race && !race_mu

package pjrt_test

// falseRaces says that the binding's per-processor pool, which is guarded by pinning the goroutine, looks like a race to
// the detector. Its build tag race_mu puts a lock there.
const falseRaces = true
