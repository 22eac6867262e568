package quantize

import (
	"fmt"
	"io"
	"math"
	"text/tabwriter"

	"rankd/internal/dtype"
)

// Report is what the narrower rows cost.
type Report struct {
	Tables []TableError
	Scores *ScoreError // nil: the bundle has no golden requests
}

// TableError compares the elements of a table with those of the original.
type TableError struct {
	Name        string
	From, To    dtype.DType
	Rows        int64
	BytesBefore int64
	BytesAfter  int64
	NotFinite   int64   // elements of the original that are NaN or infinite; they stay so, and the figures below leave them out
	Max         float64 // largest |difference| of an element
	RMS         float64 // root of the mean square difference
	Scale       float64 // root of the mean square of the original's elements
}

// ScoreError compares the scores of the golden requests with those in the original bundle.
type ScoreError struct {
	Scores      int
	Max         float64 // largest |difference|
	Mean        float64 // mean |difference|
	Swapped     int64   // pairs of requests whose order changed, by the first score
	Pairs       int64   // pairs with different scores
	LowestScore float64
	HighScore   float64
}

// compareScores compares rows of scores.
func compareScores(was, is [][]float64) *ScoreError {
	e := &ScoreError{LowestScore: math.Inf(1), HighScore: math.Inf(-1)}
	for i := range was {
		for c, v := range was[i] {
			d := math.Abs(is[i][c] - v)
			e.Max = max(e.Max, d)
			e.Mean += d
			e.Scores++
			e.LowestScore, e.HighScore = min(e.LowestScore, v), max(e.HighScore, v)
		}
		for j := range i {
			before, after := was[i][0]-was[j][0], is[i][0]-is[j][0]
			if before != 0 {
				e.Pairs++
				if before*after <= 0 {
					e.Swapped++
				}
			}
		}
	}
	e.Mean /= float64(max(e.Scores, 1))
	return e
}

// Write prints the report as text.
func (r *Report) Write(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "table\trows\ttypes\tbytes\tlargest error\tRMS error\tRMS of the elements")
	var before, after int64
	for _, t := range r.Tables {
		before, after = before+t.BytesBefore, after+t.BytesAfter
		types := fmt.Sprintf("%v > %v", t.From, t.To)
		if t.From == t.To {
			types = fmt.Sprintf("%v, as before", t.From)
		}
		fmt.Fprintf(w, "%s\t%d\t%s\t%d > %d\t%.3g\t%.3g\t%.3g\n", t.Name, t.Rows, types, t.BytesBefore, t.BytesAfter, t.Max, t.RMS, t.Scale)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, t := range r.Tables {
		if t.NotFinite > 0 {
			fmt.Fprintf(out, "table %s: %d elements are NaN or infinite, before and now; the errors leave them out\n", t.Name, t.NotFinite)
		}
	}
	fmt.Fprintf(out, "tables: %d bytes before, %d now (%.2f of it)\n", before, after, float64(after)/float64(max(before, 1)))
	if s := r.Scores; s == nil {
		fmt.Fprintln(out, "scores: not compared, the bundle has no golden requests")
	} else {
		fmt.Fprintf(out, "scores: %d of golden requests, from %.4g to %.4g: largest difference %.3g, mean %.3g; %d of %d pairs changed their order\n",
			s.Scores, s.LowestScore, s.HighScore, s.Max, s.Mean, s.Swapped, s.Pairs)
	}
	return nil
}
