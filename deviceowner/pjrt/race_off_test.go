//go:build !race || race_mu

package pjrt_test

const falseRaces = false
