package model

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"rankd/internal/dtype"
)

// writeValid writes a bundle for validManifest at dir.
func writeValid(t *testing.T, dir string) *Bundle {
	t.Helper()
	ctx := context.Background()
	m := validManifest()
	w, err := Create(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range m.Tables {
		rows := make([]byte, table.Bytes())
		err = errors.Join(err, w.AddTensors(ctx, table.File, []NamedTensor{
			{Name: table.Tensor, DType: dtype.Float32, Shape: []int64{table.Rows, int64(table.Dim)}, Data: rows},
		}))
	}
	err = errors.Join(err,
		w.AddTensors(ctx, "weights", []NamedTensor{{Name: "w", DType: dtype.Float32, Shape: []int64{3}, Data: make([]byte, 12)}}),
		w.AddText(ctx, "program", "x @B@ y @B@"))
	if err != nil {
		t.Fatal(err)
	}
	b, err := w.Commit(m)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Abort(); err != nil { // after Commit it must leave the bundle alone
		t.Fatal(err)
	}
	return b
}

func TestBundleIsReadBackAsWritten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "parent", "bundle")
	written := writeValid(t, dir)
	b, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if b.Manifest.TablesDigest() != written.Manifest.TablesDigest() || written.Dir != dir {
		t.Errorf("bundle: got %+v, want %+v", b, written)
	}
	if err := b.CheckTensors(); err != nil {
		t.Error(err)
	}
	var last, total int64
	if err := b.VerifyDigests(context.Background(), func(done, all int64) {
		if done < last {
			t.Errorf("progress went back from %d to %d", last, done)
		}
		last, total = done, all
	}); err != nil {
		t.Error(err)
	}
	if last == 0 || last != total {
		t.Errorf("progress: ended at %d of %d", last, total)
	}
	if left, err := os.ReadDir(filepath.Dir(dir)); err != nil || len(left) != 1 {
		t.Errorf("I3: got %v, %v beside the bundle, want nothing", left, err)
	}
	if _, err := b.OpenGolden(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("golden of a bundle without: got %v, want os.ErrNotExist", err)
	}
	file, weights, err := b.OpenWeights()
	if err != nil {
		t.Fatal(err)
	}
	if len(weights) != 2 || weights[0].Name != "w" || weights[1].Data != nil {
		t.Errorf("weights: got %+v", weights)
	}
	if err := file.Close(); err != nil {
		t.Error(err)
	}
}

func TestVerifyDigestsNamesEveryFileThatDiffers(t *testing.T) {
	b := writeValid(t, filepath.Join(t.TempDir(), "bundle"))
	data, err := os.ReadFile(b.Path("tables/b"))
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)-1] ^= 1
	if err := errors.Join(os.WriteFile(b.Path("tables/b"), data, 0o644), os.Remove(b.Path("program"))); err != nil {
		t.Fatal(err)
	}
	err = b.VerifyDigests(context.Background(), nil)
	if err == nil || !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), `file "tables/b": got sha256:`) || strings.Contains(err.Error(), "tables/a") {
		t.Errorf("I4: got %v, want the changed and the missing file alone", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := b.VerifyDigests(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: got %v", err)
	}
}

func TestVerifyNetworkReadsWeightsAndProgramsOnly(t *testing.T) {
	b := writeValid(t, filepath.Join(t.TempDir(), "bundle"))
	flip := func(rel string) {
		t.Helper()
		data, err := os.ReadFile(b.Path(rel))
		if err == nil {
			data[len(data)-1] ^= 1
			err = os.WriteFile(b.Path(rel), data, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	flip("tables/a")
	if err := b.VerifyNetwork(t.Context()); err != nil {
		t.Errorf("a table that differs: got %v, want none", err)
	}
	for _, rel := range []string{"weights", "program"} {
		flip(rel)
		err := b.VerifyNetwork(t.Context())
		if err == nil || !strings.Contains(err.Error(), `file "`+rel+`": got sha256:`) || !strings.Contains(err.Error(), "rankd model check") {
			t.Errorf("%s differs: got %v", rel, err)
		}
		flip(rel)
	}
	if err := os.Remove(b.Path("weights")); err != nil {
		t.Fatal(err)
	}
	if err := b.VerifyNetwork(t.Context()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no weights: got %v, want os.ErrNotExist", err)
	}
}

func TestCheckTensorsComparesFilesWithTheManifest(t *testing.T) {
	b := writeValid(t, filepath.Join(t.TempDir(), "bundle"))
	b.Manifest.Tables[1].Rows = 21
	b.Manifest.Program.Inputs[0].Weight = "x"
	err := b.CheckTensors()
	if err == nil {
		t.Fatal("got no error")
	}
	for _, want := range []string{`open table "item": tensor "rows" of `, ": got shape [20 16], want [21 16]", `open weights: program.inputs[0]: tensor "x" of "weights": got none`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error: got %v, want %q in it", err, want)
		}
	}
}

func TestProgramTextPicksTheFileOfTheBatch(t *testing.T) {
	b := writeValid(t, filepath.Join(t.TempDir(), "bundle"))
	if text, err := b.ProgramText(16); err != nil || string(text) != "x 16 y 16" {
		t.Errorf("any batch: got %q, %v", text, err)
	}
	b.Manifest.Program.Files = append(b.Manifest.Program.Files, ProgramFile{4, "four"})
	if err := os.WriteFile(b.Path("four"), []byte("bytecode @B@"), 0o644); err != nil {
		t.Fatal(err)
	}
	if text, err := b.ProgramText(4); err != nil || string(text) != "bytecode @B@" {
		t.Errorf("own file of a batch: got %q, %v", text, err)
	}
	b.Manifest.Program.Files = b.Manifest.Program.Files[1:]
	if text, err := b.ProgramText(16); err == nil {
		t.Errorf("no file: got %q", text)
	}
	b.Manifest.Program.Files = []ProgramFile{{0, "weights"}}
	if _, err := b.ProgramText(16); err == nil || !strings.Contains(err.Error(), `got no "@B@" in it`) {
		t.Errorf("file without the token: got %v", err)
	}
	if _, err := b.ProgramText(0); err == nil {
		t.Error("batch 0 has no program")
	}
}

func TestWriterLeavesNothingOnFailure(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "bundle")
	w, err := Create(dir)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	err = w.Add(ctx, "big", func(out io.Writer) error {
		cancel()
		_, err := out.Write(bytes.Repeat([]byte{1}, 1<<20))
		return err
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("canceled write: got %v", err)
	}
	for _, rel := range []string{"", "/a", "../a", "a/../b", ManifestFile, `a\b`, "."} {
		if err := w.AddText(context.Background(), rel, "x"); err == nil {
			t.Errorf("path %q: got no error", rel)
		}
	}
	// I3: nothing appears when the manifest is invalid or a file is missing.
	if _, err := w.Commit(validManifest()); err == nil {
		t.Error("a bundle without its files was committed")
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("I3: got %v, want no bundle", err)
	}
	if err := w.Abort(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(parent); err != nil || len(left) != 0 {
		t.Errorf("I3: got %v, %v, want nothing left", left, err)
	}
}

func TestCreateRefusesWhatExists(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "bundle")
	writeValid(t, dir)
	if _, err := Create(dir); !errors.Is(err, os.ErrExist) {
		t.Errorf("second bundle: got %v, want os.ErrExist", err)
	}
}

func TestOpenBoundsTheManifest(t *testing.T) {
	dir := t.TempDir()
	if _, err := Open(dir); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "rankd model create-demo DIR") {
		t.Errorf("empty directory: got %v, want os.ErrNotExist", err)
	}
	if err := os.WriteFile(filepath.Join(dir, ManifestFile), bytes.Repeat([]byte{' '}, maxManifestBytes+1), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "got more than 16777216 bytes") {
		t.Errorf("large manifest: got %v", err)
	}
}

// A pipe in place of a file would be waited for until the end of days.
func TestPipesAndDirectoriesAreRefused(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{pipe: "a named pipe, want a regular file", dir: "a directory, want a regular file", "/dev/zero": "a device, want a regular file"} {
		if _, err := OpenTensors(path); !errors.Is(err, ErrNotAFile) || !strings.Contains(err.Error(), want) {
			t.Errorf("open tensors %s: got %v, want %q", path, err, want)
		}
	}
	if err := unix.Mkfifo(filepath.Join(dir, ManifestFile), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir); !errors.Is(err, ErrNotAFile) {
		t.Errorf("open bundle: got %v, want %v", err, ErrNotAFile)
	}
}
