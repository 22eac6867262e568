package main

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"rankd/bench/load"
)

// compared is a row of the table: a figure beside others.
type compared struct {
	What    string     `json:"what"`
	Unit    string     `json:"unit"`
	Ours    float64    `json:"ours"`
	Against []baseline `json:"against"`
}

// baseline is a figure that ours is compared with. Ratio is how many times better ours is: the median over the repeats, each of which
// compares figures of its own, so that a machine that is slower for some minutes is so for both. 0: not measured. Low and High are the
// smallest and the largest.
type baseline struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Ratio float64 `json:"ratio"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
}

// of is the median of a figure, 0 if there is none.
func (r *results) of(key string) float64 {
	if f := r.Figures[key]; f != nil {
		return f.Median
	}
	return 0
}

// least is the key of the smallest figure.
func (r *results) least(keys ...string) string {
	best := keys[0]
	for _, k := range keys {
		if v := r.of(k); v > 0 && (r.of(best) == 0 || v < r.of(best)) {
			best = k
		}
	}
	return best
}

// row compares a figure, of which less is better, with others.
func (r *results) row(what, unit, ours string, against ...baseline) compared {
	return compared{what, unit, r.of(ours), against}
}

// against compares a figure of which less is better.
func (r *results) against(name, ours, theirs string) baseline {
	b := baseline{Name: name, Value: r.of(theirs)}
	if r.of(ours) == 0 || b.Value == 0 {
		return b
	}
	o, t := r.Figures[ours].Values, r.Figures[theirs].Values
	ratios := make([]float64, min(len(o), len(t)))
	for i := range ratios {
		ratios[i] = t[i] / o[i]
	}
	b.Ratio, b.Low, b.High = load.Median(ratios), slices.Min(ratios), slices.Max(ratios)
	return b
}

const sections = 6

var titles = [sections]string{
	"Lookups, time an example, one core",
	"Ring",
	"Device owner",
	"Calls to the device (CPU plugin; the program does next to nothing unless said)",
	"Decoding a request of one example",
	"From the request's bytes to its scores, one example, without transport; 64 at once, a device that takes no time",
}

// table makes all comparisons, by title.
func table(r *results) map[string][]compared {
	t := map[string][]compared{}
	add := func(section int, rows ...compared) { t[titles[section]] = append(t[titles[section]], rows...) }
	for _, d := range []string{"float32", "float16", "bfloat16", "int8"} {
		for _, batch := range []int{1, 16, 128} {
			add(0, r.lookup(d, batch))
		}
	}
	pair := func(section int, what, ours, name, theirs string) {
		add(section, r.row(what, "ns", ours, r.against(name, ours, theirs)))
	}
	pair(1, "reserve, commit, close, complete, deliver", "shmring BenchmarkRoundTrip/ring ns/op", "two Go channels", "shmring BenchmarkRoundTrip/channels ns/op")
	pair(2, "a batch on a device that takes no time, frontend's part included", "deviceowner BenchmarkBatch/loop ns/op", "the ring's calls alone", "deviceowner BenchmarkBatch/bare ns/op")
	pair(2, "a batch on the simulated accelerator, 350 µs a launch, two in flight", "deviceowner BenchmarkSaturated/loop ns/op", "a bare loop over the same executor", "deviceowner BenchmarkSaturated/bare ns/op")
	for _, rows := range []string{"1", "128"} {
		add(3, r.call("a batch of "+rows+" rows", "TinyProgram", "rows="+rows, "ns/op"), r.call("the same, processor time", "TinyProgram", "rows="+rows, "cpu-ns/op"))
	}
	add(3, r.call("a program that reads 128 rows of 13.9 KB", "WideRows", "depth=1", "ns/op"), r.call("the same, processor time", "WideRows", "depth=1", "cpu-ns/op"))
	pair(4, "rankd.v1", "frontend/wire BenchmarkDecode/native ns/op", "protobuf's generated code", "frontend/wire BenchmarkDecode/native/generated ns/op")
	for _, form := range []string{"raw", "typed"} {
		add(4, r.row("KServe v2, "+form+" contents", "ns", "frontend/wire BenchmarkDecode/"+form+" ns/op"))
	}
	add(5, r.row("rankd.v1", "ns", "frontend BenchmarkScoreUnary ns/op"))
	if key := "frontend BenchmarkScoreUnary allocs/op"; r.Figures[key] != nil {
		add(5, r.row("the same, allocations", allocations, key))
	}
	return t
}

// call compares the ways in which a batch reaches the device.
func (r *results) call(what, benchmark, size, unit string) compared {
	of := func(way string) string {
		return fmt.Sprintf("deviceowner/pjrt Benchmark%s/%s/%s %s", benchmark, way, size, unit)
	}
	ours := of("shim-lend")
	return r.row(what, "ns", ours, r.against("own shim, rows copied", ours, of("shim-copy")), r.against("go-xla", ours, of("go-xla")))
}

// lookup compares the fastest kernel at one row type and batch size. The ceiling is the same rows read into a single bag.
func (r *results) lookup(d string, batch int) compared {
	size := strconv.Itoa(batch)
	kernel := r.fastest(d)
	gather := func(name string) string { return "tables BenchmarkGather/" + d + "/" + name + " µs/example" }
	ours := gather(kernel + "/batch=" + size)
	python := func(way string) string { return "python " + way + "/batch=" + size + " µs/example" }
	c := r.row(fmt.Sprintf("%s, %d a call (%s)", d, batch, kernel), "µs/example", ours,
		r.against("rows alone", ours, gather(kernel+"/ceiling")), r.against("portable", ours, gather("generic/batch=16")))
	if d == "float32" {
		c.Against = append(c.Against,
			r.against("NumPy", ours, r.least(python("numpy_by_table"), python("numpy_at_once"))), r.against("torch", ours, python("torch_embedding_bag")))
	}
	if d != "bfloat16" {
		c.Against = append(c.Against, r.against("FBGEMM", ours, python("fbgemm_"+d)))
	}
	return c
}

// fastest names the first kernel that was measured.
func (r *results) fastest(d string) string {
	for _, k := range []string{"avx512", "avx2", "neon"} {
		if r.of("tables BenchmarkGather/"+d+"/"+k+"/batch=16 µs/example") > 0 {
			return k
		}
	}
	return "generic"
}

const lookupLegend = "\"Rows alone\": the same rows read and added by the same kernel, 16 examples a call, without bags: what the memory gives. \"Portable\": the Go kernel, " +
	"16 examples a call. Both stand beside all sizes of a call. The tables are those of the model in micro.json; a cache may hold small ones.\n\n"

// print writes the table as Markdown.
func (r *results) print(out io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# Benchmarks of parts\n\nMedians of %d runs on processor %d, all in turns; a ratio is the median of those of the runs, with the smallest and the largest.\n"+
		"One above 1 means that rankd is faster.\n", r.Repeats, r.CPU)
	if r.Quick {
		b.WriteString("\n**" + quickWarning + "**\n\n")
	}
	fmt.Fprintf(&b, "Load average before: %.2f.\n", r.Load)
	if p := r.Python; p != nil {
		var versions []string
		for _, name := range slices.Sorted(maps.Keys(p.Versions)) {
			versions = append(versions, name+" "+p.Versions[name])
		}
		fmt.Fprintf(&b, "%s; %s; tables of %d rows, %d MiB of them on huge pages in Python.\n", p.CPU, strings.Join(versions, ", "), p.Rows, p.Huge>>20)
	} else {
		b.WriteString("NumPy, torch and FBGEMM were left out: --python names an interpreter that has them.\n")
	}
	for _, title := range titles {
		rows := r.Table[title]
		fmt.Fprintf(&b, "\n## %s\n\n", title)
		if title == titles[0] {
			b.WriteString(lookupLegend)
		}
		b.WriteString("| what | rankd |")
		var names []string
		for _, row := range rows {
			for _, a := range row.Against {
				if !slices.Contains(names, a.Name) {
					names = append(names, a.Name)
				}
			}
		}
		for _, n := range names {
			fmt.Fprintf(&b, " %s |", n)
		}
		b.WriteString("\n|---|---:|" + strings.Repeat("---:|", len(names)) + "\n")
		for _, row := range rows {
			fmt.Fprintf(&b, "| %s | %s |", row.What, quantity(row.Ours, row.Unit))
			for _, n := range names {
				cell := "–"
				for _, a := range row.Against {
					if a.Name == n && a.Ratio > 0 {
						cell = fmt.Sprintf("%s (%.2f ×, %.2f–%.2f)", quantity(a.Value, row.Unit), a.Ratio, a.Low, a.High)
					}
				}
				fmt.Fprintf(&b, " %s |", cell)
			}
			b.WriteString("\n")
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// allocations is the unit of a figure that may be 0.
const allocations = "allocations"

// quantity prints three figures or more.
func quantity(v float64, unit string) string {
	if unit == allocations {
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
	if v == 0 {
		return "–"
	}
	digits := max(0, 2-int(math.Floor(math.Log10(v))))
	return strconv.FormatFloat(v, 'f', digits, 64) + " " + strings.TrimSuffix(unit, "/example")
}
