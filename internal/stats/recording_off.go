//go:build nostats

package stats

const recording = false
