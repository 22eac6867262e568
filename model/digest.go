package model

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"
)

const digestPrefix = "sha256:"

// hashChunk is how much is read and hashed between two looks at the context.
const hashChunk = 1 << 20

func digestString(h hash.Hash) string { return digestPrefix + hex.EncodeToString(h.Sum(nil)) }

// next is what a person does about files that do not fit the manifest.
const next = "copy the bundle again, or make it anew; \"rankd model check DIR\" looks at all of it"

// VerifyNetwork is VerifyDigests for the dense network alone: the weights and the programs. Tables are verified while they are
// loaded, so that with it everything that a server serves has been verified once.
func (b *Bundle) VerifyNetwork(ctx context.Context) error {
	var files []string
	if w := b.Manifest.Program.Weights; w != "" {
		files = append(files, w)
	}
	for _, p := range b.Manifest.Program.Files {
		files = append(files, p.File)
	}
	slices.Sort(files)
	return b.verify(ctx, slices.Compact(files), nil)
}

// VerifyDigests reads every file of the bundle once, in parallel, and compares its SHA-256 with the manifest's.
// The error joins every file that is missing or differs. progress, if not nil, is called with the bytes hashed so far and
// in all; its calls do not overlap.
func (b *Bundle) VerifyDigests(ctx context.Context, progress func(done, total int64)) error {
	files := make([]string, 0, len(b.Manifest.Digests))
	for p := range b.Manifest.Digests {
		files = append(files, p)
	}
	slices.Sort(files)
	return b.verify(ctx, files, progress)
}

func (b *Bundle) verify(ctx context.Context, files []string, progress func(done, total int64)) error {
	meter := &Meter{Report: progress}
	for _, p := range files {
		if fi, err := os.Stat(b.Path(p)); err == nil {
			meter.Total += fi.Size()
		}
	}
	errs := make([]error, len(files))
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, p := range files {
		g.Go(func() error {
			errs[i] = b.verifyFile(ctx, p, meter)
			return nil
		})
	}
	_ = g.Wait() // the errors are in errs, in the order of the files
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("verify digests: %w", err)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("verify digests: %w\n%s", err, next)
	}
	return nil
}

func (b *Bundle) verifyFile(ctx context.Context, rel string, meter *Meter) error {
	f, err := OpenFile(b.Path(rel))
	if err != nil {
		return err
	}
	defer f.Close()
	h := sha256.New()
	buf := make([]byte, hashChunk)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := f.Read(buf)
		h.Write(buf[:n])
		meter.Add(int64(n))
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
	}
	if got, want := digestString(h), b.Manifest.Digests[rel]; got != want {
		return fmt.Errorf("file %q: got %s, want %s", rel, got, want)
	}
	return nil
}
