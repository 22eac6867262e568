package report

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"rankd/bench/load"
)

const (
	barWidth  = 13 * vg.Length(1)
	barPitch  = 19 * vg.Length(1)
	titleRoom = 24 * vg.Length(1)
	panelRoom = 22 * vg.Length(1)
	nameRoom  = 1.2 * vg.Inch // at least
	endRoom   = 0.7 * vg.Inch // for the figure behind the longest bar
)

// bar is one of a panel.
type bar struct {
	name  string
	value float64
	note  string // instead of a bar
	more  string // behind the figure
	look  look
}

// panel is bars on a scale of their own.
type panel struct {
	title string
	bars  []bar
}

// bars draws a figure of every arm, a panel for each number of examples a request: on one scale those with many would be invisible.
func (d *drawer) bars(file, title string, of func(*Figures) float64) {
	var panels []panel
	any := false
	for _, n := range d.Sizes() {
		x, some := panel{title: load.PerRequest(n)}, false
		for _, a := range d.Arms {
			f, ok := pick(d.list, a.Name, n)
			if !ok {
				continue
			}
			b := bar{name: a.Name, value: of(&f), look: lookOf(a.Name)}
			if b.value == 0 {
				b.note = "none"
			}
			some = some || b.value > 0
			x.bars = append(x.bars, b)
		}
		if !some { // a line says as much as empty bars
			x = panel{title: load.PerRequest(n) + ": none of any server"}
		}
		any = any || some
		panels = append(panels, x)
	}
	if any {
		d.panels(file, title, panels)
	}
}

func (d *drawer) memory() {
	var x panel
	for _, a := range d.Arms {
		if a.MemoryMiB > 0 {
			x.bars = append(x.bars, bar{name: a.Name, value: a.MemoryMiB, look: lookOf(a.Name)})
		}
	}
	if len(x.bars) > 0 {
		d.panels("memory.svg", "Memory at its peak, MiB", []panel{x})
	}
}

// panels draws horizontal bars with their figures behind them.
func (d *drawer) panels(file, title string, list []panel) {
	if d.err != nil {
		return
	}
	title = d.marked(title)
	style := textStyle(12, draw.XCenter, draw.YTop)
	shown := fitted(title, style, chartWidth-2*margin)
	room := titleRoom + titleRoom*vg.Length(strings.Count(shown, "\n"))*0.6
	height := room + 2*margin
	names := nameRoom
	for _, x := range list {
		height += x.height()
		names = max(names, x.nameWidth())
	}
	c := vgsvg.New(chartWidth, height)
	area := draw.Crop(draw.New(c), margin, -margin, margin, -margin)
	area.FillText(style, vg.Point{X: (area.Min.X + area.Max.X) / 2, Y: area.Max.Y}, shown)
	top := area.Max.Y - room
	for _, x := range list {
		x.draw(area, top, names)
		top -= x.height()
	}
	b, err := svgText(c)
	if err == nil {
		err = os.WriteFile(filepath.Join(d.dir, file), b, 0o644)
	}
	if err != nil {
		d.err = fmt.Errorf("draw %s: %w", file, err)
		return
	}
	d.charts = append(d.charts, Chart{title, file})
}

func (x *panel) height() vg.Length {
	h := barPitch * vg.Length(len(x.bars))
	if x.title != "" {
		h += panelRoom
	}
	return h + margin
}

// nameWidth is the room that its names need, with some to spare for other fonts.
func (x *panel) nameWidth() vg.Length {
	style, longest := textStyle(9, draw.XRight, draw.YCenter), vg.Length(0)
	for _, b := range x.bars {
		longest = max(longest, style.Width(b.name))
	}
	return 1.1*longest + margin
}

// labelWidth is the room that the labels behind its bars need.
func (x *panel) labelWidth() vg.Length {
	style, longest := textStyle(9, draw.XLeft, draw.YCenter), endRoom
	for _, b := range x.bars {
		longest = max(longest, style.Width(shortNumber(b.value)+b.more)+margin)
	}
	return longest
}

// draw puts the panel below top, with its bars right of names.
func (x *panel) draw(area draw.Canvas, top, names vg.Length) {
	if x.title != "" {
		area.FillText(textStyle(10, draw.XLeft, draw.YTop), vg.Point{X: area.Min.X, Y: top - 4}, x.title)
		top -= panelRoom
	}
	longest := 0.0
	for _, b := range x.bars {
		longest = max(longest, b.value)
	}
	left := area.Min.X + names
	room := area.Max.X - x.labelWidth() - left
	for i, b := range x.bars {
		middle := top - barPitch*vg.Length(float64(i)+0.5)
		area.FillText(textStyle(9, draw.XRight, draw.YCenter), vg.Point{X: left - 5, Y: middle}, b.name)
		end := left
		if b.value > 0 {
			end += room * vg.Length(b.value/longest)
			area.FillPolygon(b.look.colour, []vg.Point{
				{X: left, Y: middle - barWidth/2}, {X: end, Y: middle - barWidth/2}, {X: end, Y: middle + barWidth/2}, {X: left, Y: middle + barWidth/2},
			})
		}
		label := b.note
		if label == "" {
			label = shortNumber(b.value) + b.more
		}
		area.FillText(textStyle(9, draw.XLeft, draw.YCenter), vg.Point{X: end + 5, Y: middle}, label)
	}
	axis := draw.LineStyle{Color: ink, Width: 0.7}
	area.StrokeLine2(axis, left, top, left, top-barPitch*vg.Length(len(x.bars)))
}

// shortNumber writes three digits or whole numbers.
func shortNumber(v float64) string {
	if v >= 100 {
		return count(v)
	}
	return fmt.Sprintf("%.3g", v)
}

// textStyle is that of all text in charts.
func textStyle(size font.Length, x text.XAlignment, y text.YAlignment) text.Style {
	return text.Style{
		Color: ink, Font: font.From(font.Font{Typeface: plot.DefaultFont.Typeface, Variant: "Sans"}, size),
		XAlign: x, YAlign: y, Handler: plot.DefaultTextHandler,
	}
}
