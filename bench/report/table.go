package report

import (
	"fmt"
	"strings"
)

// table is one of a Markdown page.
type table struct {
	head []string
	rows [][]string
	left int // columns that are text, at the left; 0: one
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// write appends the table; columns of figures are aligned to the right. An empty table says so.
func (t *table) write(b *strings.Builder) {
	if len(t.rows) == 0 {
		b.WriteString("Not measured.\n\n")
		return
	}
	line := func(cells []string) {
		for i := range cells {
			cells[i] = strings.ReplaceAll(cells[i], "|", "\\|")
		}
		fmt.Fprintf(b, "| %s |\n", strings.Join(cells, " | "))
	}
	line(t.head)
	marks := make([]string, len(t.head))
	for i := range marks {
		marks[i] = "---:"
		if i < max(1, t.left) {
			marks[i] = "---"
		}
	}
	line(marks)
	for _, r := range t.rows {
		line(r)
	}
	b.WriteByte('\n')
}

// count writes a number with separators of thousands.
func count(v float64) string {
	digits := fmt.Sprintf("%.0f", v)
	sign := ""
	if strings.HasPrefix(digits, "-") {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

// figure writes a value that may be missing.
func figure(format string, v float64) string {
	if v == 0 {
		return "–"
	}
	return fmt.Sprintf(format, v)
}

// rate writes a throughput, with the mark of a client that was the limit.
func rate(v float64, limited bool) string {
	switch {
	case v == 0:
		return "–"
	case limited:
		return count(v) + "*"
	}
	return count(v)
}

// ratio writes how many times a is of b.
func ratio(a, b float64) string {
	if a == 0 || b == 0 {
		return "–"
	}
	return fmt.Sprintf("%.2f ×", a/b)
}
