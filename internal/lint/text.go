package lint

import (
	"bytes"
	"fmt"
	"path"
	"regexp"
	"strings"
)

const maxLines = 600

// longFiles are files that may be longer, each with its reason.
var longFiles = map[string]string{}

func checkLength(m *module) []finding {
	var found []finding
	for _, f := range m.files {
		source := f.isGo() || strings.HasSuffix(f.path, ".s") || strings.HasSuffix(f.path, ".py") || strings.HasSuffix(f.path, ".c")
		generated := f.generated() || bytes.Contains(f.text[:min(len(f.text), 200)], []byte("Code generated"))
		if n := bytes.Count(f.text, []byte("\n")); source && !generated && n > maxLines && longFiles[f.path] == "" {
			found = append(found, finding{path: f.path, message: fmt.Sprintf("got %d lines, want at most %d: give each job its own file, or list it with a reason in internal/lint/text.go", n, maxLines)})
		}
	}
	return found
}

// checkAssemblyTwin demands for sweep_avx512_amd64.s a file sweep_generic.go or sweep_avx512_generic.go beside it.
func checkAssemblyTwin(m *module) []finding {
	exists := map[string]bool{}
	for _, f := range m.files {
		exists[f.path] = true
	}
	var found []finding
	for _, f := range m.files {
		stem, assembly := strings.CutSuffix(path.Base(f.path), ".s")
		if !assembly {
			continue
		}
		words, twin := strings.Split(stem, "_"), false
		for n := range words {
			twin = twin || exists[path.Join(f.dir(), strings.Join(words[:n+1], "_")+"_generic.go")]
		}
		if !twin {
			found = append(found, finding{path: f.path, message: fmt.Sprintf("has no portable twin: write %s_generic.go, the specification that it is tested against", path.Join(f.dir(), words[0]))})
		}
	}
	return found
}

// ownPath matches what only means something on the machine of whoever wrote the text: folders of a user.
var ownPath = regexp.MustCompile(`(?:^|[\s"'` + "`" + `(=:,\[])(/root\b[\w./-]*|/(?:home|Users)/\w+[\w./-]*)`)

func checkOwnPaths(m *module) []finding {
	var found []finding
	for _, f := range m.files {
		if !f.isText() || within(f.dir(), []string{"internal/lint"}) || strings.HasSuffix(f.path, ".sum") {
			continue
		}
		for i, l := range strings.Split(string(f.text), "\n") {
			if match := ownPath.FindStringSubmatch(l); match != nil {
				found = append(found, finding{f.path, i + 1, fmt.Sprintf("names %q, which exists only where this was written: take the path as a flag, use t.TempDir, or explain it in words", match[1])})
			}
		}
	}
	return found
}
