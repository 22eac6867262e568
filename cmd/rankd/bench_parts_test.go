package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTrialOfOtherArgumentsIsRefusedOrReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "capacity.json")
	claim := func(made string, replace bool, want int, refusal string) {
		t.Helper()
		state, err := claimTrial(path, made, replace)
		if refusal != "" {
			if err == nil || !strings.Contains(err.Error(), refusal) {
				t.Errorf("got %v, want %q", err, refusal)
			}
			return
		}
		if err != nil || state != want {
			t.Errorf("got state %d, %v, want %d", state, err, want)
		}
	}
	first := "bench\ncapacity\n--ids=uniform\nsha\n"
	claim(first, false, trialNew, "")
	if err := os.WriteFile(path, []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	claim(first, false, trialBegun, "")
	claim("bench\ncapacity\n--ids=zipf:1.5\nsha\n", false, 0, "got --ids=zipf:1.5, it has --ids=uniform")
	claim("bench\ncapacity\n--ids=uniform\nother\n", false, 0, "another build of rankd")
	if err := os.Rename(path+begunSuffix, path+madeSuffix); err != nil {
		t.Fatal(err)
	}
	claim(first, false, trialWhole, "")
	claim("bench\ncapacity\n--ids=zipf:1.5\nsha\n", false, 0, "--replace")
	claim("bench\ncapacity\n--ids=zipf:1.5\nsha\n", true, trialNew, "")
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("replaced: got %v, want no results", err)
	}
	claim("bench\ncapacity\n--ids=zipf:1.5\nsha\n", false, trialBegun, "")
}

func TestInterruptionOfATrialIsToldOnce(t *testing.T) {
	var out bytes.Buffer
	c := &childErrors{out: &out}
	for _, p := range []string{"measuring\nrankd: inter", "rupted: bench capacity\n", "stopped\n"} {
		if n, err := c.Write([]byte(p)); n != len(p) || err != nil {
			t.Fatalf("got %d, %v", n, err)
		}
	}
	if got := out.String(); got != "measuring\nstopped\n" {
		t.Errorf("got %q", got)
	}
}
