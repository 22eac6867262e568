package supervisor

import (
	"fmt"
	"html/template"
	"math"
	"strings"
	"time"
)

// chart is a small picture of samples over time, drawn on the server, so that the page needs no script to show it.
type chart struct {
	Title string
	Now   string // the last value, in words
	Lines []line
	Times []time.Time
	Unit  string
}

// line is one line of a chart; its class gives it a colour.
type line struct {
	Name   string
	Class  string
	Values []float64
}

// Size of a chart in units of its own; the page stretches it.
const (
	chartWide   = 320.0
	chartHigh   = 96.0
	chartLeft   = 40.0
	chartBottom = 14.0
	chartTop    = 6.0
)

// SVG draws the chart.
func (c chart) SVG() template.HTML {
	top := 0.0
	for _, l := range c.Lines {
		for _, v := range l.Values {
			top = max(top, v)
		}
	}
	top = niceTop(top)
	var b strings.Builder
	fmt.Fprintf(&b, `<svg viewBox="0 0 %g %g" role="img" aria-label="%s">`, chartWide, chartHigh, template.HTMLEscapeString(c.label()))
	high := chartHigh - chartTop - chartBottom
	y := func(v float64) float64 { return chartTop + high*(1-v/top) }
	for _, v := range []float64{0, top / 2, top} {
		fmt.Fprintf(&b, `<line class="grid" x1="%g" x2="%g" y1="%.1f" y2="%.1f"/><text class="tick" text-anchor="end" x="%g" y="%.1f">%s</text>`,
			chartLeft, chartWide, y(v), y(v), chartLeft-4, y(v)+3, short(v))
	}
	n := len(c.Times)
	if n > 1 {
		began, ended := c.Times[0], c.Times[n-1]
		length := max(ended.Sub(began).Seconds(), 1)
		x := func(t time.Time) float64 { return chartLeft + (chartWide-chartLeft)*t.Sub(began).Seconds()/length }
		fmt.Fprintf(&b, `<text class="tick" x="%g" y="%g">%s ago</text><text class="tick" text-anchor="end" x="%g" y="%g">now</text>`,
			chartLeft, chartHigh-2, ended.Sub(began).Round(time.Second), chartWide, chartHigh-2)
		for _, l := range c.Lines {
			fmt.Fprintf(&b, `<polyline class="%s" points="`, l.Class)
			for i, v := range l.Values {
				fmt.Fprintf(&b, "%.1f,%.1f ", x(c.Times[i]), y(v))
			}
			b.WriteString(`"/>`)
		}
	}
	b.WriteString("</svg>")
	return template.HTML(b.String()) // every text in it is escaped or ours
}

// label is the chart for those who don't see it.
func (c chart) label() string { return c.Title + ": now " + c.Now }

// niceTop is the end of a scale: 1, 2 or 5 times a power of ten.
func niceTop(v float64) float64 {
	if !(v > 0) {
		return 1
	}
	unit := math.Pow(10, math.Floor(math.Log10(v)))
	for _, n := range []float64{1, 2, 5} {
		if v <= n*unit*1.0001 {
			return n * unit
		}
	}
	return 10 * unit
}

// kilo writes a power of two.
func kilo(n int) string {
	if n >= 1024 {
		return fmt.Sprintf("%dk", n/1024)
	}
	return fmt.Sprint(n)
}

// short writes a number with three digits at most and a prefix.
func short(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v >= 1e6:
		return fmt.Sprintf("%.3gM", v/1e6)
	case v >= 1e4:
		return fmt.Sprintf("%.3gk", v/1e3)
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}

// sizeBars draws how many batches had how many rows.
func sizeBars(sizes []BatchSizes) template.HTML {
	var most uint64
	total := uint64(0)
	for _, s := range sizes {
		most, total = max(most, s.Batches), total+s.Batches
	}
	if total == 0 {
		return ""
	}
	pitch := (chartWide - chartLeft) / float64(len(sizes))
	high := chartHigh - chartTop - 2*chartBottom
	var b strings.Builder
	fmt.Fprintf(&b, `<svg viewBox="0 0 %g %g" role="img" aria-label="%d batches by their rows">`, chartWide, chartHigh, total)
	for i, s := range sizes {
		tall := high * float64(s.Batches) / float64(most)
		left := chartLeft + pitch*float64(i)
		if s.Batches > 0 {
			tall = max(tall, 1)
		}
		fmt.Fprintf(&b, `<rect class="bar" x="%.1f" y="%.1f" width="%.1f" height="%.1f"><title>%d batches of %s</title></rect><text class="tick" text-anchor="middle" x="%.1f" y="%g">%s</text>`,
			left+1, chartTop+high-tall, pitch-2, tall, s.Batches, s.words(), left+pitch/2, chartHigh-chartBottom-2, kilo(s.UpTo))
	}
	fmt.Fprintf(&b, `<text class="tick" text-anchor="end" x="%g" y="%g">%s</text><text class="tick" text-anchor="middle" x="%g" y="%g">rows a batch, at most</text></svg>`,
		chartLeft-4, chartTop+8, short(float64(most)), (chartLeft+chartWide)/2, chartHigh-1)
	return template.HTML(b.String()) // numbers and words of ours
}
