package soak

import (
	"fmt"
	"math"
)

const (
	blockSeconds = 10.0
	minBlocks    = 6

	// driftShare is the part of its mean by which a quantity must move before that counts as a drift.
	driftShare = 0.1
	// memoryAnHour is what memory may grow, in MiB: a quarter of a gigabyte a day. A share of the mean would hide a leak behind the tables.
	memoryAnHour = 10
)

// Fit is a straight line through a series.
type Fit struct {
	What   string  `json:"what"`
	Unit   string  `json:"unit"`
	Mean   float64 `json:"mean"`
	Slope  float64 `json:"slope_per_hour"`
	Low    float64 `json:"slope_low"` // 95 %
	High   float64 `json:"slope_high"`
	Moves  float64 `json:"change_over_run"`
	Blocks int     `json:"blocks"` // fewer than 6: no fit
	Drift  bool    `json:"drift"`
}

// point is a value at a second.
type point struct{ at, value float64 }

// fit computes the line, without what came before the settling time (I1, I2).
func fit(what, unit string, list []point, settle float64) Fit {
	f := line(what, unit, list, settle)
	f.Drift = f.sure() && math.Abs(f.Moves) > driftShare*math.Abs(f.Mean)
	return f
}

// fitMemory is fit for MiB, with a bound that does not depend on how much memory there is.
func fitMemory(what string, list []point, settle float64) Fit {
	f := line(what, "MiB", list, settle)
	f.Drift = f.sure() && math.Abs(f.Slope) > memoryAnHour
	return f
}

// sure reports whether the slope is not zero.
func (f *Fit) sure() bool { return f.Low > 0 || f.High < 0 }

// line is the fit without a verdict.
func line(what, unit string, list []point, settle float64) Fit {
	f := Fit{What: what, Unit: unit}
	blocks := means(list, settle)
	f.Blocks = len(blocks)
	if len(blocks) < minBlocks {
		return f
	}
	n := float64(len(blocks))
	var x, y float64
	for _, b := range blocks {
		x, y = x+b.at/n, y+b.value/n
	}
	var sxx, sxy float64
	for _, b := range blocks {
		sxx += (b.at - x) * (b.at - x)
		sxy += (b.at - x) * (b.value - y)
	}
	slope := sxy / sxx
	var rest float64
	for _, b := range blocks {
		e := b.value - y - slope*(b.at-x)
		rest += e * e
	}
	half := student(len(blocks)-2) * math.Sqrt(rest/(n-2)/sxx)
	const hour = 3600
	f.Mean, f.Slope, f.Low, f.High = y, slope*hour, (slope-half)*hour, (slope+half)*hour
	f.Moves = slope * (blocks[len(blocks)-1].at - blocks[0].at)
	return f
}

// means are those of ten seconds each.
func means(list []point, settle float64) []point {
	var blocks []point
	var counts []float64
	for _, p := range list {
		if p.at < settle {
			continue
		}
		i := int((p.at - settle) / blockSeconds)
		for len(blocks) <= i {
			blocks, counts = append(blocks, point{}), append(counts, 0)
		}
		blocks[i].at += p.at
		blocks[i].value += p.value
		counts[i]++
	}
	full := blocks[:0]
	for i, b := range blocks {
		if counts[i] > 0 {
			full = append(full, point{b.at / counts[i], b.value / counts[i]})
		}
	}
	return full
}

// student is the 97.5 % quantile of Student's distribution, to a percent.
func student(degrees int) float64 {
	d := float64(degrees)
	return 1.96 + 2.4/d + 3.0/(d*d) + 2.6/(d*d*d)
}

// Verdict is the fit in words.
func (f *Fit) Verdict() string {
	switch {
	case f.Blocks < minBlocks:
		return "too short for a line"
	case f.Drift && f.Slope > 0:
		return "grows"
	case f.Drift:
		return "falls"
	}
	return "steady"
}

func (f *Fit) String() string {
	if f.Blocks < minBlocks {
		return fmt.Sprintf("%-28s too short for a line", f.What)
	}
	return fmt.Sprintf("%-28s mean %.4g %s, %+.4g an hour [%+.4g, %+.4g], %+.3g over the run: %s", f.What, f.Mean, f.Unit, f.Slope, f.Low, f.High, f.Moves, f.Verdict())
}
