package suite

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

func TestOneComparisonAtATime(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	o := Options{Name: "a", WorkDir: t.TempDir()}
	release, err := Lock(o)
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("process %d has ", os.Getpid())
	if _, err := Lock(o); err == nil || !strings.Contains(err.Error(), "--name a") || !strings.Contains(err.Error(), want) {
		t.Errorf("the same name: got %v, want an error with %q", err, want)
	}
	other := o
	other.Name = "b"
	if _, err := Lock(other); err == nil || !strings.Contains(err.Error(), "this machine") || !strings.Contains(err.Error(), want) {
		t.Errorf("another name: got %v, want an error with %q", err, want)
	}
	release()
	for _, x := range []Options{other, o} { // also the folder whose lock was taken before the machine's was refused
		release, err := Lock(x)
		if err != nil {
			t.Fatalf("%s afterwards: %v", x.Name, err)
		}
		release()
	}
}
