package report

import (
	"fmt"
	"os"
	"path/filepath"

	"rankd/bench/load"
)

// Write reads the results in a directory and writes REPORT.md, summary.json, runs.json and the charts beside them. It returns the path of
// the report. A directory with runs.json alone is enough.
func Write(dir string) (string, error) {
	r, err := Collect(dir)
	if err != nil {
		return "", err
	}
	charts, err := r.Draw(dir)
	if err != nil {
		return "", err
	}
	if err := load.WriteJSON(filepath.Join(dir, "summary.json"), r.Summary()); err != nil {
		return "", err
	}
	if err := r.writeRuns(dir); err != nil {
		return "", err
	}
	path := filepath.Join(dir, "REPORT.md")
	if err := os.WriteFile(path, []byte(r.Markdown(charts)), 0o644); err != nil {
		return "", fmt.Errorf("write report: %w", err)
	}
	return path, nil
}
