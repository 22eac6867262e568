//go:build !race

package shmring

const raceDetector = false
