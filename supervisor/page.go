package supervisor

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"net/http"
	"time"

	"rankd/internal/config"
	"rankd/internal/placement"
	"rankd/internal/stats"
)

//go:embed status.html
var pageText string

var pageTemplate = template.Must(template.New("status").Funcs(template.FuncMap{
	"bytes": func(n int64) string {
		if n < 10<<20 {
			return config.Bytes(n).String()
		}
		return fmt.Sprintf("%.2f GiB", float64(n)/(1<<30))
	},
	"age":      func(now, then time.Time) string { return now.Sub(then).Round(time.Second).String() },
	"duration": nanoseconds,
	"unit":     stageUnit,
	"nodes":    placement.ByNode,
	"rate":     func(x float64) string { return fmt.Sprintf("%.1f", x) },
}).Parse(pageText))

// stageUnit says what a stage counts.
func stageUnit(stage string) string {
	switch stage {
	case stats.StageWait.String(), stats.StageDevice.String():
		return "batches"
	}
	return "requests"
}

// nanoseconds writes a duration with three digits.
func nanoseconds(n uint64) string {
	switch x := float64(n); {
	case n == 0:
		return "–"
	case x < 1e6:
		return fmt.Sprintf("%.3g µs", x/1e3)
	case x < 1e9:
		return fmt.Sprintf("%.3g ms", x/1e6)
	default:
		return fmt.Sprintf("%.3g s", x/1e9)
	}
}

func writePage(w http.ResponseWriter, st *Status, now time.Time) {
	var b bytes.Buffer
	err := pageTemplate.Execute(&b, struct {
		*Status
		Now time.Time
	}{st, now})
	if err != nil {
		plain(w, http.StatusInternalServerError, "render status page: "+err.Error())
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
	_, _ = w.Write(b.Bytes())
}
