//go:build !nostats

package stats

// recording is false in a build that exists only to measure what counters and histograms cost (build tag nostats). Gauges stay: servers
// admit by them.
const recording = true
