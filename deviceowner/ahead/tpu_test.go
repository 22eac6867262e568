package ahead

import (
	"path/filepath"
	"strings"
	"testing"

	"rankd/deviceowner/pjrt/pjrttest"
	"rankd/model/demo"
)

// The full network of the demo model, for which there need not be a TPU.
func TestEveryBatchSizeOfTheDemoCompilesForOneChipOfV6e(t *testing.T) {
	plugin := pjrttest.TPU(t)
	b, err := demo.Create(t.Context(), demo.Options{Dir: filepath.Join(t.TempDir(), "demo"), Seed: 1, MaxVocab: 10, MaxBatch: 4096, Golden: -1})
	if err != nil {
		t.Fatal(err)
	}
	report, err := Run(t.Context(), Options{
		Bundle: b, Settings: Settings{Platform: "tpu", Plugin: plugin, Topology: "v6e:1x1"}, Command: command(b.Dir, ""),
		Progress: func(s Step) {
			if s.Target != "" {
				t.Log(s.Target)
			} else {
				t.Logf("batch %d: %.1f s, %d bytes", s.Bucket, s.Elapsed.Seconds(), s.Bytes)
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Items) != len(b.Manifest.Buckets) {
		t.Errorf("got %d executables, want %d", len(report.Items), len(b.Manifest.Buckets))
	}
	for i, x := range report.Items {
		k := x.Key
		if k.Platform != "tpu" || k.Device != "TPU v6 lite" || k.Devices != 1 || k.Bucket != b.Manifest.Buckets[i] || k.Host != "" || x.Target != "v6e:1x1" {
			t.Errorf("got %+v, want an executable of %d rows for one chip", x, b.Manifest.Buckets[i])
		}
	}
	if _, err := Check(b); err != nil {
		t.Error(err)
	}
}

func TestLibtpuSaysWhichTopologiesItDoesNotKnow(t *testing.T) {
	plugin := pjrttest.TPU(t)
	b := smallDemo(t)
	for _, topology := range []string{"v99:1x1", "v6e", "nothing at all"} {
		_, err := Run(t.Context(), Options{
			Bundle: b, Settings: Settings{Platform: "tpu", Plugin: plugin, Topology: topology}, Command: command(b.Dir, ""),
		})
		if err == nil || !strings.Contains(err.Error(), "describe topology") || !strings.Contains(err.Error(), topology) {
			t.Errorf("%q: got %v", topology, err)
		}
	}
	nothingStored(t, b)
}
