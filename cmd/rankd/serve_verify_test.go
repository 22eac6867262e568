package main

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"rankd/internal/config"
	"rankd/model/demo"
	"rankd/supervisor"
)

func flipLastByte(t *testing.T, path string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err == nil {
		data[len(data)-1] ^= 1
		err = os.WriteFile(path, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestWeightsAndProgramsAreVerifiedOnceBesideTheTables(t *testing.T) {
	b, err := demo.CreateTest(t.Context(), demo.TestOptions{Dir: t.TempDir() + "/model", MaxBatch: 64, Golden: -1})
	if err != nil {
		t.Fatal(err)
	}
	file := b.Manifest.Program.Files[0].File
	tables := func(attached bool, did *[]string) loader {
		return func(context.Context, string, func(done, total int64)) (*supervisor.Tables, error) {
			*did = append(*did, "load")
			return &supervisor.Tables{
				Memory: supervisor.Memory{Attached: attached},
				Remove: func() error { *did = append(*did, "remove"); return nil },
				Close:  func() error { *did = append(*did, "close"); return nil },
			}, nil
		}
	}
	try := func(l loader) error {
		_, err := l(t.Context(), "x", func(int64, int64) {})
		return err
	}
	var did []string
	l := verifying(b, tables(false, &did))
	if err := try(l); err != nil {
		t.Fatal(err)
	}
	flipLastByte(t, b.Path(file))
	if err := try(l); err != nil {
		t.Errorf("a second load looks at the program again: %v", err)
	}
	if got := strings.Join(did, " "); got != "load load" {
		t.Errorf("a bundle that is right: got %s", got)
	}
	for attached, want := range map[bool]string{false: "load remove close", true: "load close"} {
		did = nil
		err := try(verifying(b, tables(attached, &did)))
		if !errors.Is(err, config.ErrBad) || !strings.Contains(err.Error(), file) {
			t.Errorf("a program that differs: got %v, want bad configuration that names %s", err, file)
		}
		if got := strings.Join(did, " "); got != want {
			t.Errorf("attached %v: got %s, want %s", attached, got, want)
		}
	}
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := verifying(b, tables(false, &did))(stopped, "x", nil); !errors.Is(err, context.Canceled) || errors.Is(err, config.ErrBad) {
		t.Errorf("asked to stop: got %v, want %v alone", err, context.Canceled)
	}
	broken := errors.New("no room")
	failing := func(context.Context, string, func(done, total int64)) (*supervisor.Tables, error) { return nil, broken }
	flipLastByte(t, b.Path(file))
	if err := try(verifying(b, failing)); !errors.Is(err, broken) || errors.Is(err, config.ErrBad) {
		t.Errorf("tables that cannot be loaded: got %v, want %v", err, broken)
	}
}
