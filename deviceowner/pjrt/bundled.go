package pjrt

import (
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"rankd/deviceowner/pjrt/execache"
	"rankd/internal/stats"
)

// Source is where the program of a bucket came from.
type Source = stats.Source

// The sources, see package stats.
const (
	SourceNone     = stats.SourceNone
	SourceCompiler = stats.SourceCompiler
	SourceCache    = stats.SourceCache
	SourceBundle   = stats.SourceBundle
)

// announce says once that a bundle has executables, but none for this platform, and then forgets them.
func (s *store) announce() {
	if s.shelf == nil {
		return
	}
	others := map[string]bool{}
	for _, x := range s.shelf.Items() {
		if x.Key.Platform == s.keys.own.Platform {
			return // each bucket is told of
		}
		others[x.Key.Platform] = true
	}
	s.log.Warn("bundle has no executables for this platform", "platform", s.keys.own.Platform, "has", slices.Sorted(maps.Keys(others)))
	_ = s.shelf.Close() // it was only read
	s.shelf = nil
}

// loadBundled is loadCached for executables that came with the model. That of this very machine is preferred.
func (s *store) loadBundled(bucket int, text []byte) runner {
	if s.shelf == nil {
		return nil
	}
	own, ahead := keyFor(s.keys.own, bucket, text), keyFor(s.keys.ahead, bucket, text)
	for _, k := range []execache.Key{own, ahead} {
		item, image, err := s.shelf.Load(k)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var r runner
		if err == nil {
			r, err = s.tryBundled(bucket, k, image)
		}
		if err == nil {
			return r
		}
		s.log.Warn("executable of the bundle not used", "rows", bucket, "file", item.File, "dir", s.shelf.Dir(), "error", err)
		return nil
	}
	if item, differences := s.shelf.Nearest(own, ahead); differences != nil {
		s.log.Warn("executable of the bundle not used", "rows", bucket, "file", item.File, "dir", s.shelf.Dir(),
			"error", "it does not fit: "+strings.Join(differences, "; "))
	} else {
		s.log.Info("bundle has no executable of this batch size", "rows", bucket)
	}
	return nil
}

var errFailedBefore = errors.New("it failed on this machine before")

// tryBundled is try for an image of the bundle. Without a cache nothing can remember a death, so that the program is run on
// zeros at once, whatever it takes: a process that dies then does so before it serves.
func (s *store) tryBundled(bucket int, k execache.Key, image []byte) (runner, error) {
	if s.cache == nil {
		return s.device.load(bucket, image, true)
	}
	if s.cache.Bad(s.model, k) {
		return nil, errFailedBefore
	}
	return s.try(bucket, s.cache.Foreign(s.model, k, image))
}
