package faults

import "strconv"

// Report is what a process says of itself after it has read the file.
type Report struct {
	Goroutines int    `json:"goroutines"` // but for the one that writes this
	Heap       uint64 `json:"heap"`       // bytes of live objects, after a collection
	Stacks     string `json:"stacks"`     // of the goroutines, those alike together
	Error      string `json:"error,omitempty"`
}

// ReportPath is where the process with that pid reports, if RANKD_FAULTS_FILE is path.
func ReportPath(path string, pid int) string { return path + "." + strconv.Itoa(pid) }
