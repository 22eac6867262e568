package supervisor

import (
	"bytes"
	"crypto/rand"
	_ "embed"
	"fmt"
	"html/template"
	"net/http"
	"strings"
	"time"

	"rankd/internal/placement"
	"rankd/internal/stats"
)

//go:embed status.html
var pageText string

var pageTemplate = template.Must(template.New("status").Funcs(template.FuncMap{
	"bytes":    sizeWords,
	"age":      func(now, then time.Time) string { return now.Sub(then).Round(time.Second).String() },
	"duration": nanoseconds,
	"unit":     stageUnit,
	"nodes":    placement.ByNode,
	"rate":     func(x float64) string { return fmt.Sprintf("%.1f", x) },
	"clock":    func(t time.Time) string { return t.Format(time.TimeOnly) },
	"lower":    strings.ToLower,
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

// writePage writes the page, or with part only what changes: the page's script puts that in place of the old.
func writePage(w http.ResponseWriter, v *view, part bool) {
	name := "page"
	if part {
		name = "main"
	}
	v.Nonce = rand.Text()
	var b bytes.Buffer
	if err := pageTemplate.ExecuteTemplate(&b, name, v); err != nil {
		plain(w, http.StatusInternalServerError, "render status page: "+err.Error())
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", fmt.Sprintf("default-src 'none'; style-src 'nonce-%[1]s'; script-src 'nonce-%[1]s'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'", v.Nonce))
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	_, _ = w.Write(b.Bytes()) // the peer may be gone
}
