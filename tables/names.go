package tables

import (
	"fmt"
	"regexp"
	"strings"
)

// An instance's name has no dot, so that the prefix of one instance's files is never that of another's.
var instancePattern = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

func checkInstance(name string) error {
	if !instancePattern.MatchString(name) {
		return fmt.Errorf("name segment: instance: got %q, want letters, digits, '_' and '-'", name)
	}
	return nil
}

// SegmentName is the file name of an instance's segment for a Manifest.TablesDigest and a copy.
func SegmentName(instance, digest string, c Copy) string {
	name := namePrefix(instance) + digest[:min(16, len(digest))]
	if c.Label != "" {
		name += "." + c.Label
	}
	return name
}

func namePrefix(instance string) string { return "rankd." + instance + ".tables." }

// escapeGlob makes a path match only itself.
func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}
