package report

import (
	"bytes"
	"fmt"
	"image/color"
	"math"
	"os"
	"path/filepath"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"rankd/bench/load"
)

// Chart is a file that was drawn.
type Chart struct{ Title, File string }

const (
	chartWidth  = 7.5 * vg.Inch
	chartHeight = 3.6 * vg.Inch
	legendWidth = 1.25 * vg.Inch
	margin      = 6 * vg.Length(1)
)

// Colours are of medium lightness, and there is no background, so that charts can be read on light and on dark pages.
var (
	ink     = color.RGBA{0x80, 0x88, 0x91, 0xff}
	faint   = color.NRGBA{0x80, 0x88, 0x91, 0x40}
	palette = []color.Color{
		color.RGBA{0x2f, 0x81, 0xf7, 0xff},
		color.RGBA{0xdb, 0x7c, 0x26, 0xff},
		color.RGBA{0x3f, 0xa3, 0x7a, 0xff},
		color.RGBA{0xc2, 0x5c, 0xb0, 0xff},
		color.RGBA{0xb5, 0x94, 0x10, 0xff},
		color.RGBA{0xd2, 0x4d, 0x57, 0xff},
		color.RGBA{0x6e, 0x8c, 0xa0, 0xff},
		color.RGBA{0x8a, 0x6f, 0xd1, 0xff},
	}
)

// newPlot is an empty chart in the style of all.
func newPlot(title, x, y string) *plot.Plot {
	p := plot.New()
	p.BackgroundColor = nil
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	style := func(s *text.Style, size font.Length) {
		s.Color = ink
		s.Font.Variant, s.Font.Size = "Sans", size
	}
	style(&p.Title.TextStyle, 12)
	style(&p.Legend.TextStyle, 9)
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		style(&a.Label.TextStyle, 10)
		style(&a.Tick.Label, 9)
		a.Color, a.Tick.Color = ink, ink
	}
	p.Title.Padding = 6
	p.Y.Tick.Marker = separated{}
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = faint, faint
	p.Add(grid)
	return p
}

// separated is the usual marks of an axis with separators of thousands.
type separated struct{}

func (separated) Ticks(low, high float64) []plot.Tick {
	ticks := plot.DefaultTicks{}.Ticks(low, high)
	for i := range ticks {
		if ticks[i].Label != "" && ticks[i].Value >= 1000 {
			ticks[i].Label = count(ticks[i].Value)
		}
	}
	return ticks
}

// svg draws the chart, and the legend, if it has entries, beside it, where it hides nothing.
func svg(p *plot.Plot, legend *plot.Legend) ([]byte, error) {
	c := vgsvg.New(chartWidth, chartHeight)
	area := draw.Crop(draw.New(c), margin, -margin, margin, -margin)
	if legend != nil {
		legend.TextStyle, legend.Padding = p.Legend.TextStyle, 3
		legend.Top, legend.Left = true, true
		legend.Draw(draw.Crop(area, area.Max.X-area.Min.X-legendWidth, 0, 0, -4*margin))
		area = draw.Crop(area, 0, -legendWidth-2*margin, 0, 0)
	}
	p.Draw(area)
	var b bytes.Buffer
	if _, err := c.WriteTo(&b); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// Draw writes all charts into a directory.
func (r *Results) Draw(dir string) ([]Chart, error) {
	d := &drawer{Results: r, dir: dir, list: r.Figures()}
	rows := r.Sizes()
	d.bars("throughput-20ms.svg", "Throughput with p99 at most 20 ms", "examples a second", func(f *Figures) float64 { return f.Within20 })
	for _, n := range rows {
		d.lines(fmt.Sprintf("scaling-%d.svg", n), "Throughput by callers, "+perRequest(n), "callers", "examples a second", n,
			func(p *Point) (x, y float64) { return p.Load, p.Examples() }, plot.LogScale{}, nil)
		d.lines(fmt.Sprintf("p99-%d.svg", n), "p99 by throughput, "+perRequest(n), "examples a second", "p99 ms", n,
			func(p *Point) (x, y float64) { return p.Examples(), p.P99() }, nil, plot.LogScale{})
	}
	d.bars("cpu.svg", "Server CPU for 1,000 examples, at the peak", "CPU seconds", func(f *Figures) float64 { return f.PerThousand })
	d.memory()
	return d.charts, d.err
}

func perRequest(n int) string {
	if n == 1 {
		return "1 example a request"
	}
	return fmt.Sprintf("%d examples a request", n)
}

// drawer draws charts until one fails.
type drawer struct {
	*Results
	dir    string
	list   []Figures
	charts []Chart
	err    error
}

func (d *drawer) title(text string) string {
	if d.Simulated {
		text += " (simulated accelerator)"
	}
	return text
}

func (d *drawer) save(p *plot.Plot, legend *plot.Legend, file, title string) {
	b, err := svg(p, legend)
	if err == nil {
		err = os.WriteFile(filepath.Join(d.dir, file), b, 0o644)
	}
	if err != nil {
		d.err = fmt.Errorf("draw %s: %w", file, err)
		return
	}
	d.charts = append(d.charts, Chart{title, file})
}

// bars draws a figure of every arm, grouped by the number of examples a request.
func (d *drawer) bars(file, title, unit string, of func(*Figures) float64) {
	if d.err != nil {
		return
	}
	title = d.title(title)
	sizes := d.Sizes()
	p := newPlot(title, "examples a request", unit)
	legend := plot.NewLegend()
	width := vg.Length(min(28, 300/float64(max(1, len(sizes)*len(d.Arms)))))
	any := false
	for i, a := range d.Arms {
		values := make(plotter.Values, len(sizes))
		for k, n := range sizes {
			if f, ok := pick(d.list, a.Name, n); ok {
				values[k] = of(&f)
				any = any || values[k] > 0
			}
		}
		bars, err := plotter.NewBarChart(values, width)
		if err != nil {
			d.err = fmt.Errorf("draw %s: %w", file, err)
			return
		}
		bars.Color, bars.LineStyle.Width = palette[i%len(palette)], 0
		bars.Offset = width * vg.Length(float64(i)-float64(len(d.Arms)-1)/2)
		p.Add(bars)
		legend.Add(a.Name, bars)
	}
	if !any {
		return
	}
	names := make([]string, len(sizes))
	for k, n := range sizes {
		names[k] = fmt.Sprint(n)
	}
	p.NominalX(names...)
	p.Y.Min = 0
	d.save(p, &legend, file, title)
}

// lines draws the closed-loop points of every arm at one size.
func (d *drawer) lines(file, title, x, y string, rows int, at func(*Point) (x, y float64), xScale, yScale plot.Normalizer) {
	if d.err != nil {
		return
	}
	title = d.title(title)
	p := newPlot(title, x, y)
	legend := plot.NewLegend()
	any := false
	for i, a := range d.Arms {
		var points plotter.XYs
		f, _ := pick(d.list, a.Name, rows)
		for _, q := range a.Points {
			if q.Mode != load.Closed || q.Rows != rows || q.Variant != f.Variant || a.Mismatches > 0 {
				continue
			}
			if px, py := at(q); px > 0 && py > 0 {
				points = append(points, plotter.XY{X: px, Y: py})
			}
		}
		if len(points) == 0 {
			continue
		}
		line, marks, err := plotter.NewLinePoints(points)
		if err != nil {
			d.err = fmt.Errorf("draw %s: %w", file, err)
			return
		}
		line.Color, line.Width, marks.Color, marks.Radius, marks.Shape = palette[i%len(palette)], 1.5, palette[i%len(palette)], 2.5, draw.CircleGlyph{}
		p.Add(line, marks)
		legend.Add(a.Name, line, marks)
		any = true
	}
	if !any {
		return
	}
	logarithmic(&p.X, xScale)
	logarithmic(&p.Y, yScale)
	d.save(p, &legend, file, title)
}

// logarithmic gives an axis a scale, if there is one for it. A range of a single value is widened: its logarithm has no length.
func logarithmic(a *plot.Axis, scale plot.Normalizer) {
	if scale == nil {
		a.Min, a.Tick.Marker = 0, separated{}
		if a.Max <= a.Min {
			a.Max = 1
		}
		return
	}
	a.Scale, a.Tick.Marker = scale, plot.LogTicks{Prec: -1}
	a.Min, a.Max = math.Pow(10, math.Floor(math.Log10(a.Min))), math.Pow(10, math.Ceil(math.Log10(a.Max)))
	if a.Max <= a.Min {
		a.Max = 10 * a.Min
	}
}

func (d *drawer) memory() {
	if d.err != nil {
		return
	}
	title := d.title("Memory at its peak")
	p := newPlot(title, "", "MiB")
	var names []string
	for _, a := range d.Arms {
		if a.MemoryMiB == 0 {
			continue
		}
		values := plotter.Values{a.MemoryMiB}
		bars, err := plotter.NewBarChart(values, 28)
		if err != nil {
			d.err = fmt.Errorf("draw memory: %w", err)
			return
		}
		bars.Color, bars.LineStyle.Width, bars.XMin = palette[len(names)%len(palette)], 0, float64(len(names))
		p.Add(bars)
		names = append(names, a.Name)
	}
	if len(names) == 0 {
		return
	}
	p.NominalX(names...)
	p.Y.Min = 0
	d.save(p, nil, "memory.svg", title)
}
