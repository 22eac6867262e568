package lint

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// file is one file of a module. Only Go files have syntax.
type file struct {
	path   string // slash-separated, relative to the module
	text   []byte
	syntax *ast.File // nil for a file that is not Go or does not parse
	err    error     // why it does not parse
}

func (f *file) dir() string     { return path.Dir(f.path) }
func (f *file) isGo() bool      { return strings.HasSuffix(f.path, ".go") }
func (f *file) isTest() bool    { return strings.HasSuffix(f.path, "_test.go") }
func (f *file) isText() bool    { return !bytes.Contains(f.text[:min(len(f.text), 8000)], []byte{0}) }
func (f *file) generated() bool { return f.syntax != nil && ast.IsGenerated(f.syntax) }

// imports gives the import paths of a Go file by the position of their specs.
func (f *file) imports() map[token.Pos]string {
	found := map[token.Pos]string{}
	if f.syntax == nil {
		return found
	}
	for _, spec := range f.syntax.Imports {
		if p, err := strconv.Unquote(spec.Path.Value); err == nil {
			found[spec.Pos()] = p
		}
	}
	return found
}

type module struct {
	fset  *token.FileSet
	files []*file
}

// finding is a violation of a rule.
type finding struct {
	path    string
	line    int // 0: the file as a whole
	message string
}

func (f finding) String() string {
	if f.line == 0 {
		return f.path + ": " + f.message
	}
	return fmt.Sprintf("%s:%d: %s", f.path, f.line, f.message)
}

func (m *module) at(pos token.Pos) int { return m.fset.Position(pos).Line }

// packages groups the Go files by directory.
func (m *module) packages() map[string][]*file {
	dirs := map[string][]*file{}
	for _, f := range m.files {
		if f.isGo() {
			dirs[f.dir()] = append(dirs[f.dir()], f)
		}
	}
	return dirs
}

func (m *module) add(name string, text []byte) {
	f := &file{path: name, text: text}
	if f.isGo() {
		f.syntax, f.err = parser.ParseFile(m.fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
		if f.err != nil {
			f.syntax = nil
		}
	}
	m.files = append(m.files, f)
}

// skipped are directories that hold no source of ours: build outputs, environments, results and examples.
var skipped = []string{"testdata", "results", "node_modules", "__pycache__"}

// load reads the module at root.
func load(root string) (*module, error) {
	m := &module{fset: token.NewFileSet()}
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			hidden := strings.HasPrefix(name, ".") && name != ".ci" && p != root
			if hidden || slices.Contains(skipped, name) || strings.HasSuffix(name, ".egg-info") {
				return fs.SkipDir
			}
			return nil
		}
		if info, err := d.Info(); err != nil || !info.Mode().IsRegular() || info.Size() > 1<<20 {
			return err
		}
		text, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		m.add(filepath.ToSlash(rel), text)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read module: %w", err)
	}
	return m, nil
}
