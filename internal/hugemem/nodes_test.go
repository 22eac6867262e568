package hugemem

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"testing"

	"rankd/internal/procmem"
)

// policyOf is the policy of the mapping, as the kernel has it.
func policyOf(t *testing.T, m *Mapping) string {
	t.Helper()
	list, err := procmem.ReadNUMA("self")
	if errors.Is(err, procmem.ErrNoNUMA) {
		t.Skip("no NUMA in this kernel")
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range list {
		if n.Lo == uint64(addressOf(m.Bytes)) {
			return n.Policy
		}
	}
	t.Fatalf("find mapping at %#x: numa_maps has none", addressOf(m.Bytes))
	return ""
}

// TestI6PagesLieOnTheirNodes can show on any machine that the calls are made and taken back; where pages lie on several nodes is looked at
// on a machine with two (make numa).
func TestI6PagesLieOnTheirNodes(t *testing.T) {
	runtime.LockOSThread() // so that a policy that was left behind would be seen by the next case
	defer runtime.UnlockOSThread()
	for _, c := range []struct {
		name  string
		nodes []int
		want  string // policy
	}{
		{"anywhere", nil, "default"},
		{"on one", []int{0}, "prefer:0"},
		{"by turns", []int{0, 0}, "interleave:0"},
		{"anywhere again", nil, "default"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := Create(context.Background(), Options{Name: "rankd-test-nodes", Size: 3 * HugeSize, Nodes: c.nodes})
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if got := policyOf(t, f.Mapping); got != c.want {
				t.Errorf("got policy %q, want %q", got, c.want)
			}
			if nodes, err := f.Mapping.Nodes(); err != nil || nodes[0] != f.Size {
				t.Errorf("got %v, %v, want %d bytes on node 0", nodes, err, f.Size)
			}
		})
	}
}

func TestNodeThatIsNotThereIsWarnedOf(t *testing.T) {
	for _, node := range []int{maxNode, maxNode + 1, -1} {
		var log bytes.Buffer
		f, err := Create(context.Background(), Options{Name: "rankd-test-nodes", Size: HugeSize, Nodes: []int{node}, Log: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		f.Mapping.Bytes[f.Size-1] = 1
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(log.String(), "shared pages are not placed on nodes") {
			t.Errorf("node %d: got log %q, want a warning", node, log.String())
		}
	}
}
