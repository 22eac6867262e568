package execache

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

const (
	generations  = 3                   // entries of one model and bucket that are kept
	maxAge       = time.Hour           // of a temporary file, whose writer is gone by then
	maxBadAge    = 30 * 24 * time.Hour // of a mark; its key is out of use by then, or tried once more
	maxNameBytes = 40                  // of a model in a file's name
)

// entryName is the file of a key: the model and the bucket for people and for pruning, the key's hash for the rest.
func entryName(model string, k Key) string {
	return entryFile(model, k.Bucket, k.hash())
}

// entryFile is a name of an entry: 32 hex digits tell it from others of its model and bucket.
func entryFile(model string, bucket int, digits string) string {
	return fmt.Sprintf("%s.b%d.%s%s", fileWord(model), bucket, digits, entrySuffix)
}

// fileWord makes a name that is one word for the file system and still tells models apart.
func fileWord(model string) string {
	word := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return '_'
	}, model)
	if word == model && word != "" && len(word) <= maxNameBytes {
		return word
	}
	sum := sha256.Sum256([]byte(model))
	return fmt.Sprintf("%s~%s", word[:min(len(word), maxNameBytes)], hex.EncodeToString(sum[:4]))
}

var (
	entryPattern    = regexp.MustCompile(`^([A-Za-z0-9_~-]+\.b\d+)\.[0-9a-f]{32}\.exe$`)
	digestTemporary = regexp.MustCompile(`^digest\.[0-9a-f]{16}\.json\.[0-9-]+\.tmp$`)
	badPattern      = regexp.MustCompile(`^[A-Za-z0-9_~-]+\.b\d+\.[0-9a-f]{32}\.exe\.bad$`)
	ownPattern      = regexp.MustCompile(`^([A-Za-z0-9_~-]+\.b\d+\.[0-9a-f]{32}\.exe)\.[0-9-]+(\.trial)?(\.tmp)?$`)
)

// entryOf returns the entry that a marker is about.
func entryOf(marker string) (string, bool) {
	m := ownPattern.FindStringSubmatch(marker)
	if m == nil {
		return "", false
	}
	return m[1], true
}

type listed struct {
	name  string
	bytes int64
	used  time.Time
}

// list returns the files of the folder, the latest first. What cannot be read is left out.
func (c *Cache) list() []listed {
	d, err := c.root.Open(".")
	if err != nil {
		return nil
	}
	defer d.Close()
	entries, _ := d.ReadDir(-1) // what was read before an error is enough to tidy up
	files := make([]listed, 0, len(entries))
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			files = append(files, listed{e.Name(), info.Size(), info.ModTime()})
		}
	}
	slices.SortFunc(files, func(a, b listed) int { return b.used.Compare(a.used) })
	return files
}

// prune removes entries beyond the bounds, the ones longest unused first, and what killed writers left.
func (c *Cache) prune(now time.Time) {
	var total int64
	kept := map[string]int{}
	for _, f := range c.list() {
		if m := entryPattern.FindStringSubmatch(f.name); m != nil {
			if kept[m[1]] < generations && total+f.bytes <= c.bytes {
				kept[m[1]]++
				total += f.bytes
				continue
			}
			c.log.Info("executable removed from the cache", "dir", c.dir, "file", f.name, "bytes", f.bytes)
			_ = c.root.Remove(f.name) // another process may have been faster
			continue
		}
		temporary := digestTemporary.MatchString(f.name) || ownPattern.MatchString(f.name) && strings.HasSuffix(f.name, temporarySuffix)
		if age := now.Sub(f.used); temporary && age > maxAge || badPattern.MatchString(f.name) && age > maxBadAge {
			_ = c.root.Remove(f.name)
		}
	}
}
