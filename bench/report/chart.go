package report

import (
	"bytes"
	"fmt"
	"html"
	"image/color"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

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
	margin      = 6 * vg.Length(1)
)

// Colours are of medium lightness, and there is no background, so that charts can be read on light and on dark pages.
var (
	ink   = color.RGBA{0x76, 0x7e, 0x87, 0xff}
	faint = color.NRGBA{0x80, 0x88, 0x91, 0x40}
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
	p.X.Tick.Marker, p.Y.Tick.Marker = even{}, even{}
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = faint, faint
	p.Add(grid)
	return p
}

// even puts marks at round numbers, about five of them.
type even struct{}

func (even) Ticks(low, high float64) []plot.Tick {
	step := niceStep(high - low)
	var ticks []plot.Tick
	for i := math.Ceil(low/step-1e-9) + 0; i*step <= high+1e-9*step; i++ { // + 0: no negative zero
		ticks = append(ticks, plot.Tick{Value: i * step, Label: tickLabel(i*step, step)})
	}
	return ticks
}

// niceStep divides a length into four to eight parts of 1, 2 or 5 times a power of ten.
func niceStep(length float64) float64 {
	if !(length > 0) {
		return 1
	}
	unit := math.Pow(10, math.Floor(math.Log10(length/4)))
	for _, n := range []float64{5, 2} {
		if length/(n*unit) >= 4 {
			return n * unit
		}
	}
	return unit
}

func tickLabel(v, step float64) string {
	if step >= 1 {
		return count(v)
	}
	return strconv.FormatFloat(v, 'f', int(math.Ceil(-math.Log10(step)-1e-9)), 64)
}

// callersScale is logarithmic, with marks at the numbers of callers that were measured.
type callersScale struct{ plot.LogScale }

// decades puts marks at powers of ten, and labels 2 and 5 times them as well where there is room.
type decades struct{}

func (decades) Ticks(low, high float64) []plot.Tick {
	var ticks []plot.Tick
	few := math.Log10(high/low) < 2.5
	for unit := math.Pow(10, math.Floor(math.Log10(low)+1e-9)); unit <= high*1.000001; unit *= 10 {
		for n := 1.0; n < 10; n++ {
			v := n * unit
			if v < low*0.999999 || v > high*1.000001 {
				continue
			}
			t := plot.Tick{Value: v}
			if n == 1 || few && (n == 2 || n == 5) {
				t.Label = tickLabel(v, min(unit, 1))
			}
			ticks = append(ticks, t)
		}
	}
	return ticks
}

// svg draws the chart, and the legend, if it has entries, beside it, where it hides nothing.
func svg(p *plot.Plot, l *legend) ([]byte, error) {
	c := vgsvg.New(chartWidth, chartHeight)
	area := draw.Crop(draw.New(c), margin, -margin, margin, -margin)
	if l != nil {
		l.TextStyle, l.Padding = p.Legend.TextStyle, 3
		l.Top, l.Left = true, true
		width := l.width()
		l.Draw(draw.Crop(area, area.Max.X-area.Min.X-width, 0, 0, -4*margin))
		area = draw.Crop(area, 0, -width-2*margin, 0, 0)
	}
	p.Title.Text = fitted(p.Title.Text, p.Title.TextStyle, area.Max.X-area.Min.X)
	p.Draw(area)
	return svgText(c)
}

// legend is one whose names are known, so that it gets the room that it needs.
type legend struct {
	plot.Legend
	names []string
}

func newLegend() *legend { return &legend{Legend: plot.NewLegend()} }

func (l *legend) add(name string, thumbs ...plot.Thumbnailer) {
	l.Add(name, thumbs...)
	l.names = append(l.names, name)
}

// width has some room to spare: whoever shows the chart may have another font.
func (l *legend) width() vg.Length {
	longest := vg.Length(0)
	for _, n := range l.names {
		longest = max(longest, l.TextStyle.Width(n))
	}
	return l.ThumbnailWidth + 1.15*longest + 2*margin
}

// fitted breaks a title that is wider than its room, before what stands in brackets or else at a space.
func fitted(title string, style text.Style, room vg.Length) string {
	if style.Width(title) <= room {
		return title
	}
	for _, mark := range []string{" (", ", ", " "} {
		for i := strings.LastIndex(title, mark); i > 0; i = strings.LastIndex(title[:i], mark) {
			first := title[:i] + strings.TrimSpace(mark[:1]) // the comma stays on the first line
			if rest := strings.TrimSpace(title[len(first):]); style.Width(first) <= room && (style.Width(rest) <= room || mark == " ") {
				return first + "\n" + rest
			}
		}
	}
	return title
}

// svgText is the picture, in a font that most have. Whoever has another one sees every text as wide as it was meant, so that nothing is cut
// or runs into something else.
func svgText(c *vgsvg.Canvas) ([]byte, error) {
	var b bytes.Buffer
	if _, err := c.WriteTo(&b); err != nil {
		return nil, err
	}
	text := bytes.ReplaceAll(b.Bytes(), []byte("font-family:Liberation Sans;"), []byte("font-family:Liberation Sans,Arial,Helvetica,sans-serif;"))
	return texts.ReplaceAllFunc(text, func(x []byte) []byte {
		m := texts.FindSubmatch(x)
		size, err := strconv.ParseFloat(string(m[2]), 64)
		if err != nil {
			return x
		}
		width := textStyle(font.Length(size), draw.XLeft, draw.YTop).Width(html.UnescapeString(string(m[3])))
		return fmt.Appendf(nil, `%s textLength="%.4g" lengthAdjust="spacingAndGlyphs">%s</text>`, m[1], float64(width), m[3])
	}), nil
}

// texts finds the texts of a picture, with the size of their letters.
var texts = regexp.MustCompile(`(?s)(<text [^>]*font-size:([0-9.]+)px[^>]*)>([^<]+)</text>`)

// Draw writes all charts into a directory.
func (r *Results) Draw(dir string) ([]Chart, error) {
	d := &drawer{Results: r, dir: dir, list: r.Figures()}
	rows := r.Sizes()
	d.bars("throughput-20ms.svg", "Throughput with p99 at most 20 ms, examples a second", func(f *Figures) float64 { return f.Within20 })
	for _, n := range rows {
		d.lines(fmt.Sprintf("scaling-%d.svg", n), "Throughput by callers, "+load.PerRequest(n), "callers", "examples a second", n,
			func(p *Point) (x, y float64) { return p.Load, p.Examples() }, callersScale{}, nil)
		d.lines(fmt.Sprintf("p99-%d.svg", n), "p99 by throughput, "+load.PerRequest(n), "examples a second", "p99 ms", n,
			func(p *Point) (x, y float64) { return p.Examples(), p.P99() }, nil, plot.LogScale{})
	}
	d.bars("cpu.svg", "Server CPU seconds for 1,000 examples, at the peak", func(f *Figures) float64 { return f.PerThousand })
	d.memory()
	d.capacity()
	d.overload()
	d.ablations()
	d.soak()
	return d.charts, d.err
}

// drawer draws charts until one fails.
type drawer struct {
	*Results
	dir    string
	list   []Figures
	charts []Chart
	err    error
}

func (d *drawer) save(p *plot.Plot, l *legend, file, title string) {
	b, err := svg(p, l)
	if err == nil {
		err = os.WriteFile(filepath.Join(d.dir, file), b, 0o644)
	}
	if err != nil {
		d.err = fmt.Errorf("draw %s: %w", file, err)
		return
	}
	d.charts = append(d.charts, Chart{title, file})
}

// lines draws the closed-loop points of every arm at one size.
func (d *drawer) lines(file, title, x, y string, rows int, at func(*Point) (x, y float64), xScale, yScale plot.Normalizer) {
	if d.err != nil {
		return
	}
	title = d.marked(title)
	p := newPlot(title, x, y)
	legend := newLegend()
	any := false
	for _, a := range d.Arms {
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
		if !d.line(p, legend, file, a.Name, lookOf(a.Name), points) {
			return
		}
		any = true
	}
	if !any {
		return
	}
	logarithmic(&p.X, xScale)
	logarithmic(&p.Y, yScale)
	if _, ok := xScale.(callersScale); ok {
		p.X.Tick.Marker = d.callers()
	}
	if yScale != nil {
		d.limit(p, legend, file, quotedBound)
	}
	d.save(p, legend, file, title)
}

// line adds a line with marks to a chart.
func (d *drawer) line(p *plot.Plot, l *legend, file, name string, look look, points plotter.XYs) bool {
	line, marks, err := plotter.NewLinePoints(points)
	if err != nil {
		d.err = fmt.Errorf("draw %s: %w", file, err)
		return false
	}
	line.Color, line.Width, marks.Color, marks.Radius, marks.Shape = look.colour, 1.5, look.colour, 3, look.shape
	p.Add(line, marks)
	l.add(name, line, marks)
	return true
}

// limit adds a dashed line at a latency in milliseconds, if the chart shows it.
func (d *drawer) limit(p *plot.Plot, l *legend, file string, ms float64) {
	if d.err != nil || p.Y.Min >= ms || p.Y.Max <= ms {
		return
	}
	limit, err := plotter.NewLine(plotter.XYs{{X: p.X.Min, Y: ms}, {X: p.X.Max, Y: ms}})
	if err != nil {
		d.err = fmt.Errorf("draw %s: %w", file, err)
		return
	}
	limit.Color, limit.Width, limit.Dashes = ink, 1, []vg.Length{4, 3}
	p.Add(limit)
	l.add(count(ms)+" ms", limit)
}

// callers are marks at all numbers of callers.
func (d *drawer) callers() plot.ConstantTicks {
	seen := map[float64]bool{}
	var ticks plot.ConstantTicks
	for _, a := range d.Arms {
		for _, q := range a.Points {
			if q.Mode == load.Closed && !seen[q.Load] {
				seen[q.Load] = true
				ticks = append(ticks, plot.Tick{Value: q.Load, Label: count(q.Load)})
			}
		}
	}
	return ticks
}

// quotedBound is the p99 in milliseconds that throughputs are mostly quoted within.
const quotedBound = 20

// logarithmic gives an axis a scale, if there is one for it, from zero or a round number to a round number. A range of a single value
// is widened: its logarithm has no length.
func logarithmic(a *plot.Axis, scale plot.Normalizer) {
	if scale == nil {
		a.Min, a.Tick.Marker = 0, even{}
		if a.Max <= a.Min {
			a.Max = 1
		}
		step := niceStep(a.Max)
		a.Max = math.Ceil(a.Max/step-1e-9) * step
		return
	}
	a.Scale, a.Tick.Marker = scale, decades{}
	a.Min, a.Max = roundLog(a.Min, math.Floor), roundLog(a.Max, math.Ceil)
	if a.Max <= a.Min {
		a.Max = 10 * a.Min
	}
}

// roundLog moves a value down or up to 1, 2 or 5 times a power of ten.
func roundLog(v float64, to func(float64) float64) float64 {
	up := to(0.5) == 1
	unit := math.Pow(10, math.Floor(math.Log10(v)+1e-9))
	best := unit
	for _, n := range []float64{1, 2, 5, 10} {
		switch edge := n * unit; {
		case up && edge >= v*0.999999:
			return edge
		case !up && edge <= v*1.000001:
			best = edge
		}
	}
	return best
}
