package lint

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

func checkDoc(m *module) []finding {
	var found []finding
	for dir, files := range m.packages() {
		if !slices.ContainsFunc(files, func(f *file) bool { return !f.isTest() && !f.generated() }) {
			continue
		}
		name := path.Join(dir, "doc.go")
		i := slices.IndexFunc(files, func(f *file) bool { return f.path == name })
		if i < 0 || files[i].syntax == nil || files[i].syntax.Doc == nil {
			found = append(found, finding{path: name, message: "is missing: write the package comment there (what it is, nouns, invariants, failure)"})
			continue
		}
		if files[i].syntax.Name.Name == "main" {
			continue
		}
		doc := files[i].syntax.Doc.Text()
		if !strings.Contains(doc, "# Invariants") || len(defined(doc)) == 0 {
			found = append(found, finding{path: name, message: `has no invariants: add a section "# Invariants" with lines "I1  ..."`})
		}
	}
	return found
}

var vaguePackages = []string{"util", "utils", "common", "helper", "helpers", "misc", "shared", "base", "lib", "tools"}

func checkPackageName(m *module) []finding {
	var found []finding
	for _, f := range m.files {
		if f.syntax == nil || f.isTest() {
			continue
		}
		name := f.syntax.Name.Name
		if slices.Contains(vaguePackages, name) || strings.ContainsAny(name, "_") || strings.ToLower(name) != name {
			found = append(found, finding{f.path, m.at(f.syntax.Name.Pos()), fmt.Sprintf("package name %q: use a short lower-case noun that says what the package holds", name)})
		}
	}
	return found
}

var (
	definition = regexp.MustCompile(`(?m)^\s*I(\d{1,2})\s`)
	citation   = regexp.MustCompile(`(?:(\w+)(?:'s)? )?\bI(\d{1,2})\b`)
)

// defined lists the numbers of the invariants that a package comment states.
func defined(doc string) map[string]bool {
	numbers := map[string]bool{}
	for _, match := range definition.FindAllStringSubmatch(doc, -1) {
		numbers[match[1]] = true
	}
	return numbers
}

// checkInvariants finds citations, the letter and a number, of invariants that the package's doc.go does not state. The name
// of another package before the letter cites that package's. It looks at comments and at names of subtests.
func checkInvariants(m *module) []finding {
	stated := map[string]map[string]bool{} // by directory
	byName := map[string]string{}          // package name -> directory
	for dir, files := range m.packages() {
		byName[path.Base(dir)] = dir
		for _, f := range files {
			if path.Base(f.path) == "doc.go" && f.syntax != nil && f.syntax.Doc != nil {
				stated[dir] = defined(f.syntax.Doc.Text())
			}
		}
	}
	var found []finding
	for _, f := range m.files {
		if f.syntax == nil || f.generated() {
			continue
		}
		for _, t := range append(comments(f), subtestNames(f)...) {
			for _, match := range citation.FindAllStringSubmatch(t.text, -1) {
				dir := f.dir()
				if other, known := byName[match[1]]; known {
					dir = other
				}
				if !stated[dir][match[2]] {
					found = append(found, finding{f.path, m.at(t.pos), fmt.Sprintf("cites I%s, which %s does not state: add it there or cite another", match[2], path.Join(dir, "doc.go"))})
				}
			}
		}
	}
	return found
}

var (
	syncEnd     = regexp.MustCompile(`SYNC\(([\w-]+)\): pairs with \w`)
	syncMention = regexp.MustCompile(`SYNC\(([\w-]+)\)`)
)

// checkSyncPairs demands that each named store/load pair is marked at both ends, within one package and outside its tests.
func checkSyncPairs(m *module) []finding {
	var found []finding
	for _, files := range m.packages() {
		ends := map[string]int{}
		for _, f := range files {
			if f.syntax == nil || f.isTest() || path.Base(f.path) == "doc.go" {
				continue
			}
			for _, c := range comments(f) {
				for _, match := range syncEnd.FindAllStringSubmatch(c.text, -1) {
					ends[match[1]]++
				}
			}
		}
		for _, f := range files {
			if f.syntax == nil {
				continue
			}
			for _, c := range comments(f) {
				for _, match := range syncMention.FindAllStringSubmatch(c.text, -1) {
					if n := ends[match[1]]; n < 2 {
						found = append(found, finding{f.path, m.at(c.pos), fmt.Sprintf("SYNC(%s) is marked at %d ends: write \"// SYNC(%s): pairs with <function>\" at the store and at the load", match[1], n, match[1])})
					}
				}
			}
		}
	}
	return found
}
