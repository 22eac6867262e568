package report

import (
	"cmp"
	"fmt"

	"rankd/bench/load"
)

// publishedRow is a figure of the servers that were published, and how ours is found.
type publishedRow struct {
	what    string
	rows    int // examples a request; 0: all
	xse     float64
	python  float64
	against string // which Python server
	lower   bool   // is better
	format  string
	ours    func(p *page) (rankd, python float64, arm string)
}

func within20(rows int) func(p *page) (float64, float64, string) {
	return ofBest(rows, false, func(f *Figures) float64 { return f.Within20 })
}

// ofBest compares rankd with the best Python server.
func ofBest(rows int, lower bool, of func(*Figures) float64) func(p *page) (float64, float64, string) {
	return func(p *page) (float64, float64, string) {
		ours, _ := pick(p.list, product, rows)
		best, arm := bestPython(p.list, rows, lower, of)
		return of(&ours), best, arm
	}
}

// ofArm compares one of our arms with one of Python's.
func ofArm(ourArm, arm string, rows int, of func(*Figures) float64) func(p *page) (float64, float64, string) {
	return func(p *page) (float64, float64, string) {
		ours, _ := pick(p.list, ourArm, rows)
		theirs, _ := pick(p.list, arm, rows)
		return of(&ours), of(&theirs), arm
	}
}

// openP99 compares p99 in the open loop at 80 % of each one's own peak.
func openP99(rows int) func(p *page) (float64, float64, string) {
	return func(p *page) (ours, theirs float64, arm string) {
		find := func(name string) float64 {
			a := p.arm(name)
			if a == nil || a.Mismatches > 0 {
				return 0
			}
			for _, x := range a.Points {
				if x.Mode != load.Closed && x.Rows == rows && x.Share == 0.8 {
					return x.P99()
				}
			}
			return 0
		}
		return find(product), find("py-mp-batch"), "py-mp-batch"
	}
}

func memories(p *page) (float64, float64, string) {
	find := func(name string) float64 {
		if a := p.arm(name); a != nil {
			return a.MemoryMiB / 1024
		}
		return 0
	}
	return find(product), find("py-mp-batch"), "py-mp-batch"
}

func publishedRows() []publishedRow {
	var list []publishedRow
	three := func(what, against, format string, lower bool, xse, python [3]float64, ours func(rows int) func(p *page) (float64, float64, string)) {
		for i, rows := range []int{1, 16, 128} {
			list = append(list, publishedRow{what: what, rows: rows, xse: xse[i], python: python[i], against: against, lower: lower, format: format, ours: ours(rows)})
		}
	}
	three("examples/s, p99 at most 20 ms", "best Python", "%.0f", false, [3]float64{30126, 83375, 92373}, [3]float64{6081, 42407, 81011}, within20)
	three("examples/s, no bound", "py-mp-batch", "%.0f", false, [3]float64{30126, 122011, 182323}, [3]float64{8825, 79682, 126174}, func(rows int) func(p *page) (float64, float64, string) {
		return ofArm(product, "py-mp-batch", rows, func(f *Figures) float64 { return f.Peak })
	})
	three("server CPU s/1,000 examples", "py-mp-batch", "%.3f", true, [3]float64{0.224, 0.059, 0.041}, [3]float64{0.770, 0.084, 0.057}, func(rows int) func(p *page) (float64, float64, string) {
		return ofArm(product, "py-mp-batch", rows, func(f *Figures) float64 { return f.PerThousand })
	})
	three("one caller, p50 ms, no batching", "py", "%.2f", true, [3]float64{1.18, 1.75, 2.94}, [3]float64{1.23, 1.69, 4.65}, func(rows int) func(p *page) (float64, float64, string) {
		return ofArm("rankd-nobatch", "py", rows, func(f *Figures) float64 { return f.P50 })
	})
	three("open loop at 80 %, p99 ms", "py-mp-batch", "%.1f", true, [3]float64{9.5, 29.7, 123}, [3]float64{112, 95, 72}, openP99)
	return append(list, publishedRow{what: "memory, GiB", xse: 8.2, python: 31.9, against: "py-mp-batch", lower: true, format: "%.1f", ours: memories})
}

// published lays our ratios beside those that were published, row by row.
func (p *page) published() {
	p.heading("Beside published figures")
	p.line("XLA Serving Engine (XSE) and Python servers on one Cloud TPU v6e chip, 8 server cores (AMD EPYC), 16 client cores, DLRM-DCNv2 with " +
		"6.2 million rows (3.2 GB). Another machine and another device: only the ratios stand beside ours, and they are of other Python servers too. " +
		"A ratio above 1 means better than Python.\n")
	t := table{head: []string{"what", "examples a request", "XSE", "its Python", "ratio", "rankd", "Python here", "which", "ratio", "rankd's ratio is"}}
	for _, r := range publishedRows() {
		ours, theirs, arm := r.ours(p)
		was, is := r.ratio(r.xse, r.python), r.ratio(ours, theirs)
		verdict := "not measured"
		switch {
		case ours == 0 && theirs > 0 && p.has(product, r.rows):
			verdict = "**lower**: rankd has none"
		case is == 0:
		case is >= was:
			verdict = "higher"
		default:
			verdict = "**lower**"
		}
		rows := "all"
		if r.rows > 0 {
			rows = fmt.Sprint(r.rows)
		}
		t.add(r.what, rows, r.number(r.xse), r.number(r.python), figure("%.2f", was), r.number(ours), r.number(theirs), cmp.Or(arm, r.against), figure("%.2f", is), verdict)
	}
	t.write(&p.b)
	p.line("Also published: lookups of XSE 24,500 examples a core and second at 128 examples, NumPy 17,600; p99 of the three repeats of py-mp-batch in the open loop at 80 %%: " +
		"583 / 112 / 106, 138 / 48 / 95 and 47 / 72 / 193 ms, of XSE within 5 %% of each other.\n")
}

// has reports whether an arm was measured at a size.
func (p *page) has(arm string, rows int) bool {
	f, ok := pick(p.list, arm, rows)
	return ok && f.Peak > 0
}

func (r *publishedRow) number(v float64) string { return number(r.format, v) }

// number writes a figure that may be missing or large.
func number(format string, v float64) string {
	if v >= 1000 {
		return count(v)
	}
	return figure(format, v)
}

// ratio is above 1 where the first is better.
func (r *publishedRow) ratio(a, b float64) float64 {
	if a == 0 || b == 0 {
		return 0
	}
	if r.lower {
		return b / a
	}
	return a / b
}
