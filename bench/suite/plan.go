package suite

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"rankd/bench/exam"
	"rankd/bench/load"
)

// task is a point: a closed loop of some callers, or an open loop at a share of the peak.
type task struct {
	rows    int
	callers int     // closed
	share   float64 // open
}

// session is a variant from start to end.
type session struct {
	v      *variant
	repeat int
	sweep  bool
	tasks  []task
	memory bool // read at the peak
}

// assignment says which variant of an arm is measured with which sizes.
type assignment struct {
	v     *variant
	sizes []int
}

// sweepCallers are the loads of a sweep: enough to tell variants apart, no more.
func (o *Options) sweepCallers() []int {
	list := slices.Sorted(slices.Values(o.Callers))
	return list[max(0, len(list)-2):]
}

// sweeps lists a session for each variant of the arms that have several.
func (s *suite) sweeps(arms []arm) []session {
	var list []session
	for _, a := range arms {
		variants := s.fitting(a)
		if len(variants) < 2 {
			continue
		}
		for _, v := range variants {
			x := session{v: v, repeat: 1, sweep: true}
			for _, rows := range s.o.Sizes {
				for _, c := range s.o.sweepCallers() {
					x.tasks = append(x.tasks, task{rows: rows, callers: c})
				}
			}
			list = append(list, x)
		}
	}
	return list
}

// fitting lists the variants whose tables fit into the machine's memory.
func (s *suite) fitting(a arm) []*variant {
	room := memAvailable()
	tables := tableBytes(s.o.dirOf(a.rows))
	return slices.DeleteFunc(s.o.variants(a), func(v *variant) bool {
		need := v.memory(tables)
		if need == tables || room == 0 || need < room/10*9 {
			return false
		}
		fmt.Fprintf(s.o.Progress, "%s: left out: its copies of the tables take %d MiB of %d MiB that are free\n", v.title(), need>>20, room>>20)
		return true
	})
}

// best gives each size of each arm the variant that was best in the sweep.
func (s *suite) best(arms []arm) []assignment {
	var list []assignment
	for _, a := range arms {
		variants := s.fitting(a)
		if len(variants) == 0 {
			continue
		}
		for _, rows := range s.o.Sizes {
			v := slices.MaxFunc(variants, func(x, y *variant) int { return compareScores(s.score(x, rows), s.score(y, rows)) })
			if i := slices.IndexFunc(list, func(x assignment) bool { return x.v == v }); i >= 0 {
				list[i].sizes = append(list[i].sizes, rows)
			} else {
				list = append(list, assignment{v, []int{rows}})
			}
		}
	}
	return list
}

// scoreLimit is the p99 in milliseconds within which variants are compared, if they can keep it at all.
const scoreLimit = 20

// score is what a variant did in the sweep: examples a second within the limit, and without one.
func (s *suite) score(v *variant, rows int) (score [2]float64) {
	f := s.read(v, rows, 1, true)
	for _, r := range f.Results {
		if lost := r.Timed - r.OK; lost*1000 > r.Timed {
			continue
		}
		score[1] = max(score[1], r.ExampleRate)
		if r.Latency.P99 <= scoreLimit {
			score[0] = max(score[0], r.ExampleRate)
		}
	}
	return score
}

func compareScores(a, b [2]float64) int {
	return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1]))
}

// closed is the closed loops of a repeat, followed by the open ones if they are to be in the same session.
func (s *suite) closed(x assignment, repeat int, andOpen bool) session {
	n := session{v: x.v, repeat: repeat, memory: repeat == 1}
	for _, rows := range x.sizes {
		for _, c := range s.o.Callers {
			n.tasks = append(n.tasks, task{rows: rows, callers: c})
		}
	}
	if andOpen {
		n.tasks = append(n.tasks, s.open80(x, repeat).tasks...)
	}
	return n
}

// open80 is the open loops of a repeat.
func (s *suite) open80(x assignment, repeat int) session {
	n := session{v: x.v, repeat: repeat}
	for _, rows := range x.sizes {
		for _, share := range openShares {
			n.tasks = append(n.tasks, task{rows: rows, share: share})
		}
	}
	return n
}

// floor loads the server that does nothing: in a closed loop, to see what the client can do, and at the rate at which rankd is loaded
// at the highest share of its peak, to see how much the machine itself varies.
func (s *suite) floor(repeat int) session {
	a, _ := armByName(null)
	n := session{v: &variant{arm: a}, repeat: repeat}
	for _, rows := range s.o.Sizes {
		if repeat == 1 {
			n.tasks = append(n.tasks, task{rows: rows, callers: s.o.sweepCallers()[0]})
		}
		n.tasks = append(n.tasks, task{rows: rows, share: slices.Max(openShares)})
	}
	return n
}

// total is the numbers of sessions and of points of the plan, as far as they are known before it runs.
func (s *suite) total(arms []arm) [2]int {
	sessions, points := 0, 0
	for _, x := range s.sweeps(arms) {
		sessions, points = sessions+1, points+len(x.tasks)
	}
	starts := 1
	if s.o.Repeats > 1 {
		starts = 2
	}
	sessions += len(arms)*s.o.Repeats*starts + s.o.Repeats
	points += len(arms)*s.o.Repeats*len(s.o.Sizes)*(len(s.o.Callers)+len(openShares)) + len(s.o.Sizes)*(s.o.Repeats+1)
	return [2]int{sessions, points}
}

// rate is what a task offers, in requests a second, rounded to three digits; 0: the arm has no peak.
func (s *suite) rate(v *variant, t task) float64 {
	if v.kind == nothing {
		// The client answers for what rankd would have had to do.
		for _, r := range s.productPeaks(t.rows) {
			return round(r * t.share)
		}
		return 0
	}
	return round(s.peak(v, t.rows) * t.share)
}

func round(rate float64) float64 {
	if rate <= 0 {
		return 0
	}
	unit := math.Pow(10, math.Floor(math.Log10(rate))-2)
	return math.Round(rate/unit) * unit
}

// peak is the largest median over the repeats of requests a second in the closed loop.
func (s *suite) peak(v *variant, rows int) float64 {
	rates := map[int][]float64{}
	for r := 1; r <= max(s.o.Repeats, s.state.Repeats); r++ { // also those of an earlier run
		for _, x := range s.read(v, rows, r, false).Results {
			if x.Mode == load.Closed && (x.Timed-x.OK)*1000 <= x.Timed {
				rates[x.Callers] = append(rates[x.Callers], x.RequestRate)
			}
		}
	}
	peak := 0.0
	for _, list := range rates {
		peak = max(peak, load.Median(list))
	}
	return peak
}

// productPeaks is the peak of rankd with its defaults, if it was measured.
func (s *suite) productPeaks(rows int) []float64 {
	a, _ := armByName("rankd")
	for _, v := range s.o.variants(a) {
		if p := s.peak(v, rows); p > 0 {
			return []float64{p}
		}
	}
	return nil
}

// DryRun prints the plan.
func DryRun(o Options) error {
	s, err := newSuite(&o)
	if err != nil {
		return err
	}
	w := o.Out
	fmt.Fprintf(w, "results:     %s\nmodel:       DLRM-DCNv2, tables of at most %d rows, in %s\nplatform:    %s\nprocessors:  server %v, client %v\n", o.Results(), o.MaxVocab, o.Model(), o.Platform, o.ServerCPUs, o.ClientCPUs)
	fmt.Fprintf(w, "workload:    %s\n", cmp.Or(o.Workload, exam.Independent))
	fmt.Fprintf(w, "points:      %v callers, %v examples a request, %v after %v, %d repeats; then open loops at %v of the peak\n", o.Callers, o.Sizes, o.Duration, o.Warmup, o.Repeats, openShares)
	for _, a := range o.chosen() {
		note := ""
		if why := s.missing(a); why != "" {
			note = "  (now: " + why + ")"
		}
		fmt.Fprintf(w, "\n%s: %s%s\n", a.name, a.what, note)
		for _, v := range o.variants(a) {
			s.printCommand(w, v)
		}
	}
	total := s.total(o.chosen())
	c := clock{}
	c.begin(total, o.Warmup+o.Duration)
	fmt.Fprintf(w, "\n%d points in %d sessions, about %v without installation\n", total[1], total[0], c.left().Round(1e9))
	return nil
}

func (s *suite) printCommand(w io.Writer, v *variant) {
	o := s.launch(v)
	line := o.Command
	if len(line) == 0 {
		line = append([]string{o.Binary, "serve", "--model=" + o.Model}, o.Flags...)
	}
	fmt.Fprintf(w, "  taskset -c %s %s\n", join(o.CPUs), strings.Join(line, " "))
}

func join(list []int) string {
	var words []string
	for _, n := range list {
		words = append(words, strconv.Itoa(n))
	}
	return strings.Join(words, ",")
}

// memAvailable is the kernel's figure in bytes; 0: unknown.
func memAvailable() int64 {
	text, _ := os.ReadFile("/proc/meminfo") // unknown without it
	for _, l := range strings.Split(string(text), "\n") {
		if f := strings.Fields(l); len(f) > 1 && f[0] == "MemAvailable:" {
			n, _ := strconv.ParseInt(f[1], 10, 64) // the kernel's own number
			return n << 10
		}
	}
	return 0
}
