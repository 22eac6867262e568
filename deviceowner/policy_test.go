package deviceowner

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"rankd/internal/batching"
	"rankd/model"
)

// TestPolicies reads one state of an open slab a line and says what each policy does about it: "close", or "wait", and
// for how long if time alone will close it.
func TestPolicies(t *testing.T) {
	datadriven.RunTest(t, "testdata/policy.td", func(t *testing.T, d *datadriven.TestData) string {
		var delay string
		var capacity int
		d.ScanArgs(t, "max-delay", &delay)
		d.ScanArgs(t, "capacity", &capacity)
		var out strings.Builder
		for _, line := range strings.Split(d.Input, "\n") {
			var since, device string
			s := slabState{capacity: capacity}
			if n, err := fmt.Sscanf(line, "%d rows since %s device %s", &s.rows, &since, &device); err != nil {
				d.Fatalf(t, "read %q: %d fields: %v", line, n, err)
			}
			s.sinceFirst, s.deviceFree = parse(t, since), device == "free"
			fmt.Fprintf(&out, "%s:", line)
			for _, kind := range batching.All() {
				p := policy{kind: kind, maxDelay: parse(t, delay)}
				fmt.Fprintf(&out, " %s %s", kind, verdictOf(p, s))
			}
			out.WriteByte('\n')
		}
		return out.String()
	})
}

func verdictOf(p policy, s slabState) string {
	if p.close(s) {
		return "close"
	}
	if due := p.due(s.sinceFirst); s.rows > 0 && due > 0 {
		return fmt.Sprintf("wait %v", due)
	}
	return "wait"
}

func parse(t *testing.T, text string) time.Duration {
	t.Helper()
	v, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestChoices covers the small choices: the bucket of a batch, the time of spinning, the number of slabs, the buckets.
func TestChoices(t *testing.T) {
	datadriven.RunTest(t, "testdata/choices.td", func(t *testing.T, d *datadriven.TestData) string {
		switch d.Cmd {
		case "bucket":
			var buckets, rows []int
			d.ScanArgs(t, "of", &buckets)
			d.ScanArgs(t, "rows", &rows)
			var out []string
			for _, n := range rows {
				out = append(out, fmt.Sprintf("%d->%d", n, buckets[bucketFor(buckets, n)]))
			}
			return strings.Join(out, " ") + "\n"
		case "spin":
			var cpus, procs, frontends int
			d.ScanArgs(t, "cpus", &cpus)
			d.ScanArgs(t, "procs", &procs)
			d.ScanArgs(t, "frontends", &frontends)
			return fmt.Sprintln(spinTime(50*time.Microsecond, cpus, procs, frontends))
		case "slabs":
			c := DefaultSettings()
			d.ScanArgs(t, "batching", &c.Batching)
			d.ScanArgs(t, "depth", &c.PipelineDepth)
			return fmt.Sprintln(c.Slabs())
		case "buckets":
			c, m := DefaultSettings(), &model.Manifest{}
			d.ScanArgs(t, "executor", &c.Executor)
			d.ScanArgs(t, "platform", &c.Platform)
			d.ScanArgs(t, "model", &m.Buckets)
			d.MaybeScanArgs(t, "flag", &c.Buckets)
			return fmt.Sprintln(c.BucketsFor(m))
		}
		return "unknown command\n"
	})
}

func TestTheGeometryOfEveryDepthHasRoomForThreeMoreSlabsThanLaunches(t *testing.T) {
	for _, kind := range batching.All() {
		for depth := 1; depth <= 16; depth++ {
			c := Default()
			c.Batching, c.PipelineDepth = string(kind), depth
			if err := c.Validate(); err != nil {
				t.Fatalf("depth %d: %v", depth, err)
			}
			if n := c.Slabs(); n < depth+3 || n > 64 {
				t.Errorf("%s at depth %d: %d slabs, want %d to 64", kind, depth, n, depth+3)
			}
		}
	}
}

func TestConfigurationNamesBadBuckets(t *testing.T) {
	for _, buckets := range [][]int{{0, 4}, {4, 4}, {8, 4}, make([]int, 40)} {
		c := Default()
		c.Buckets = buckets
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "--buckets") {
			t.Errorf("buckets %v: got %v, want an error that names --buckets", buckets, err)
		}
	}
}

func TestEveryPolicyHasARuleAndAnUnknownOneHasNone(t *testing.T) {
	s := slabState{rows: 1, capacity: 8}
	for _, kind := range batching.All() {
		p := policy{kind: kind, maxDelay: time.Millisecond}
		p.close(s) // panics without a rule
		if p.due(0) > 0 != kind.Timed() {
			t.Errorf("%s: got due in %v, want a time only for policies that wait", kind, p.due(0))
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("close of an unknown policy: got an answer, want a panic")
		}
	}()
	policy{kind: "unknown"}.close(s)
}

func TestFlagTakesExactlyThePolicies(t *testing.T) {
	c := Default()
	for _, kind := range batching.All() {
		c.Batching = string(kind)
		if err := c.Validate(); err != nil {
			t.Errorf("%s: %v: name it in the oneof of --batching", kind, err)
		}
	}
	field, _ := reflect.TypeFor[Settings]().FieldByName("Batching")
	for _, name := range strings.Split(field.Tag.Get("oneof"), "|") {
		if !batching.Kind(name).Known() {
			t.Errorf("--batching takes %q, want it among %v", name, batching.All())
		}
	}
}
