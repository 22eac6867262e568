package lint

import (
	"fmt"
	"strings"
)

const modulePath = "rankd"

// allowed is the import table: for each directory (the longest that fits counts) the directories of this module that its
// non-test files may import. "*" is everything, "x/..." is x and all below.
var allowed = map[string][]string{
	"cmd":                  {"*"},
	"supervisor":           {"shmring", "tables", "model", "internal/..."},
	"frontend":             {"frontend/...", "shmring", "tables", "model", "internal/..."},
	"frontend/wire":        {"frontend/wire/...", "internal/..."},
	"frontend/h2":          {"frontend/h2/...", "internal/..."},
	"deviceowner":          {"deviceowner/...", "shmring", "model", "internal/..."},
	"deviceowner/executor": {"internal/..."},
	"deviceowner/sim":      {"deviceowner/executor", "model", "internal/..."},
	"deviceowner/pjrt":     {"deviceowner/executor", "deviceowner/pjrt/...", "model", "internal/..."},
	"shmring":              {"shmring/...", "internal/..."},
	"tables":               {"tables/...", "model", "internal/..."},
	"model":                {"model/...", "internal/..."},
	"bench":                {"bench/...", "frontend/wire/...", "model/...", "internal/..."},
	"bench/exam":           {"frontend/wire/...", "deviceowner/sim", "model/...", "internal/..."}, // sim says what its scores are
	"top":                  {"supervisor", "internal/..."},
	"client":               {"frontend/wire/...", "internal/..."},
	"predict":              {"client", "frontend/wire/...", "model", "internal/..."},
	"internal":             {"internal/..."},
	"deploy/systemd":       {"internal/..."},
	"e2e/loaded":           {"bench/launch", "model/..."},
}

// confined says where foreign packages may be imported, tests included.
var confined = map[string][]string{
	"google.golang.org/grpc":      {"cmd/...", "client", "predict", "frontend/...", "bench/...", "internal/...", "e2e"},
	"github.com/gomlx/go-xla":     {"deviceowner/pjrt/..."},
	"github.com/prometheus":       {"internal/stats", "supervisor", "bench/..."},
	"github.com/spf13/cobra":      {"cmd/..."},
	"go.opentelemetry.io":         {"frontend/trace/..."},
	"github.com/charmbracelet":    {"top"},
	"github.com/chromedp":         {"e2e/browser"},
	"github.com/cilium/ebpf":      {"internal/steer"},
	"golang.org/x/net/bpf":        {"internal/steer"},
	"golang.org/x/net/http2":      {"frontend/...", "bench/...", "internal/..."},
	"github.com/edsrzf/mmap-go":   {"tables", "model", "internal/..."},
	"github.com/HdrHistogram":     {"bench/..."},
	"gonum.org/":                  {"bench/report"},
	"go.yaml.in/yaml":             {"internal/config"},
	"google.golang.org/genproto/": {"cmd/...", "client", "predict", "frontend/...", "bench/...", "internal/h2wire", "e2e"},
}

func within(dir string, patterns []string) bool {
	for _, p := range patterns {
		if tree, below := strings.CutSuffix(p, "/..."); p == "*" || dir == p || (below && (dir == tree || strings.HasPrefix(dir, tree+"/"))) {
			return true
		}
	}
	return false
}

// rowOf finds the import table's row for a directory.
func rowOf(dir string) ([]string, bool) {
	for d := dir; d != "."; {
		if row, ok := allowed[d]; ok {
			return row, true
		}
		i := strings.LastIndexByte(d, '/')
		if i < 0 {
			break
		}
		d = d[:i]
	}
	return nil, false
}

func checkImports(m *module) []finding {
	var found []finding
	for _, f := range m.files {
		row, listed := rowOf(f.dir())
		for pos, target := range f.imports() {
			if own, ours := strings.CutPrefix(target, modulePath+"/"); ours {
				switch {
				case f.isTest():
				case !listed:
					found = append(found, finding{f.path, m.at(pos), fmt.Sprintf("%s has no row in the import table: add one to internal/lint/imports.go", f.dir())})
				case !within(own, row):
					found = append(found, finding{f.path, m.at(pos), fmt.Sprintf("%s must not import %s (it may: %s): move the code or pass it in as an interface", f.dir(), own, strings.Join(row, ", "))})
				}
				continue
			}
			for foreign, where := range confined {
				if strings.HasPrefix(target, foreign) && !within(f.dir(), where) {
					found = append(found, finding{f.path, m.at(pos), fmt.Sprintf("%s must not import %s: that belongs to %s", f.dir(), target, strings.Join(where, ", "))})
				}
			}
		}
	}
	return found
}

func checkUnsafe(m *module) []finding {
	var found []finding
	for _, f := range m.files {
		for pos, target := range f.imports() {
			if target == "unsafe" && !f.isTest() && !f.generated() && !strings.HasSuffix(f.path, "_unsafe.go") {
				found = append(found, finding{f.path, m.at(pos), "imports unsafe: move what needs it into a file that ends in _unsafe.go"})
			}
		}
	}
	return found
}

func checkCgo(m *module) []finding {
	var found []finding
	for _, f := range m.files {
		for pos, target := range f.imports() {
			if target == "C" && !within(f.dir(), []string{"deviceowner/pjrt/..."}) {
				found = append(found, finding{f.path, m.at(pos), `imports "C": only deviceowner/pjrt may; hide the call behind the executor interface`})
			}
		}
	}
	return found
}
