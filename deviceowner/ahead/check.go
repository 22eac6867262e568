package ahead

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"rankd/deviceowner/pjrt"
	"rankd/deviceowner/pjrt/execache"
	"rankd/model"
)

// Stored is what a bundle has for one target.
type Stored struct {
	Plugin   string // name of the plugin's file
	Target   string // topology; empty: the device of the machine that compiled
	Digest   string // of the plugin's file
	Platform string
	Device   string
	Buckets  []int // ascending
	Bytes    int64
}

// Check reads every executable of a bundle and compares it with its digests, and with the bundle's programs. The error joins what
// is wrong with each. A bundle without executables gives nothing.
func Check(b *model.Bundle) ([]Stored, error) {
	shelf, err := execache.OpenShelf(b.Path(model.ExecutablesDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var list []Stored
	var errs []error
	for _, x := range shelf.Items() {
		errs = append(errs, checkItem(b, shelf, x))
		s := Stored{Plugin: x.Plugin, Target: x.Target, Digest: x.Key.Plugin, Platform: x.Key.Platform, Device: x.Key.Device}
		i := slices.IndexFunc(list, func(o Stored) bool {
			return o.Digest == s.Digest && o.Target == s.Target && o.Platform == s.Platform && o.Device == s.Device
		})
		if i < 0 {
			i = len(list)
			list = append(list, s)
		}
		list[i].Buckets = append(list[i].Buckets, x.Key.Bucket)
		list[i].Bytes += x.Bytes
	}
	for _, s := range list {
		slices.Sort(s.Buckets)
	}
	return list, errors.Join(append(errs, shelf.Close())...)
}

func checkItem(b *model.Bundle, shelf *execache.Shelf, x execache.Item) error {
	if _, err := shelf.Read(x); err != nil {
		return err
	}
	if err := checkProgram(b, x.Key); err != nil {
		return fmt.Errorf("check executable %q: %w", filepath.Join(shelf.Dir(), x.File), err)
	}
	return nil
}

// checkProgram says whether a key is that of the bundle's own program.
func checkProgram(b *model.Bundle, k execache.Key) error {
	text, err := b.ProgramText(k.Bucket)
	if err != nil {
		return err
	}
	if got, want := k.Program, pjrt.ProgramDigest(text); got != want {
		return fmt.Errorf("got program %s, want %s, the bundle's for %d rows: compile it again", got, want, k.Bucket)
	}
	return nil
}
