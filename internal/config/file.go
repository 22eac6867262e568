package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v4"
)

// DefaultFile is the file that the service reads, and that commands about configuration look at unless they are given another.
const DefaultFile = "/etc/rankd/rankd.yaml"

// ErrFile is wrapped when a file as a whole can't be read, so that none of its settings is known.
var ErrFile = errors.New("no configuration")

// maxFileBytes bounds a file. One with every setting and its comment has about a hundredth of it.
const maxFileBytes = 1 << 20

// file sets what stands in the file at path and nothing stronger has set. It returns all errors, each with file and line.
func (o Origins) file(fs *pflag.FlagSet, path string) error {
	text, err := readFile(path)
	if err != nil {
		return &explained{err.Error(), fmt.Errorf("%w: %w", ErrFile, err)}
	}
	f := settingsFile{path: path, flags: fs}
	for _, s := range f.parse(text) {
		stronger := o[s.key].Source > FromFile
		value, err := nodeText(s.value, s.field)
		switch {
		case err != nil:
		case stronger: // it is not taken, and must be right all the same (I4)
			_, err = parseValue(s.field.value.Type(), value)
		default:
			err = set(fs, s.key, value)
		}
		if origin := o[s.key]; stronger {
			origin.Over = append(origin.Over, f.place(s.line))
			o[s.key] = origin
		} else {
			o[s.key] = Origin{Source: FromFile, Place: f.place(s.line), Bad: err != nil}
		}
		if err != nil {
			f.fail(s.line, "%s: %w", s.key, err)
		}
	}
	return errors.Join(f.errs...)
}

func readFile(path string) ([]byte, error) {
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("open configuration file %q: there is none; \"rankd config example\" prints one to begin with", path)
	}
	if err != nil {
		return nil, fmt.Errorf("open configuration file: %w", err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxFileBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read configuration file: %w", err)
	}
	if len(text) > maxFileBytes {
		return nil, fmt.Errorf("read configuration file %q: got more than %d bytes, want YAML with one setting a line", path, maxFileBytes)
	}
	return text, nil
}

// settingsFile is a file while it is read.
type settingsFile struct {
	path  string
	flags *pflag.FlagSet
	errs  []error
}

// setting is one key with its value.
type setting struct {
	key   string
	line  int
	value *yaml.Node
	field field
}

func (f *settingsFile) place(line int) string { return fmt.Sprintf("%s:%d", f.path, line) }

func (f *settingsFile) fail(line int, format string, args ...any) {
	f.errs = append(f.errs, fmt.Errorf("%s: %w", f.place(line), fmt.Errorf(format, args...)))
}

// parse gives the settings whose keys are right.
func (f *settingsFile) parse(text []byte) (found []setting) {
	root := f.document(text)
	if root == nil {
		return nil
	}
	if root.Kind != yaml.MappingNode {
		f.fail(root.Line, "got %s, want settings, one a line, such as \"frontends: 4\"", nodeName(root))
		return nil
	}
	lines := map[string]int{}
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		s, err := f.setting(key, value)
		if first, twice := lines[key.Value]; twice && err == nil {
			err = fmt.Errorf("%s: stands here and in line %d, want it once", key.Value, first)
		}
		if err != nil {
			f.fail(key.Line, "%w", err)
			continue
		}
		lines[key.Value] = key.Line
		found = append(found, s)
	}
	return found
}

// document reads the one document of a file. Nil: there is none, or it is no YAML.
func (f *settingsFile) document(text []byte) *yaml.Node {
	loader, err := yaml.NewLoader(bytes.NewReader(text))
	var document, second yaml.Node
	if err == nil {
		err = loader.Load(&document)
	}
	if errors.Is(err, io.EOF) { // nothing but comments
		return nil
	}
	if err == nil {
		if err = loader.Load(&second); err == nil {
			f.fail(second.Line, "got a second document, want one: remove the line \"---\"")
		} else if errors.Is(err, io.EOF) {
			err = nil
		}
	}
	if err != nil {
		f.failYAML(text, err)
		return nil
	}
	if len(document.Content) == 0 || document.Content[0].Tag == "!!null" {
		return nil
	}
	return document.Content[0]
}

// failYAML says where the text stops being YAML.
func (f *settingsFile) failYAML(text []byte, err error) {
	var at *yaml.LoadError
	if !errors.As(err, &at) {
		f.fail(1, "%w", &explained{"read YAML: " + err.Error(), ErrFile})
		return
	}
	line, what := max(at.Mark.Line, 1), at.Message
	if at.Mark.Line == 0 { // bytes that are no text have no position
		what = strings.TrimSpace(what)
	}
	if at.ContextMsg != "" {
		what += " (" + at.ContextMsg
		if at.ContextMark.Line != line {
			what += fmt.Sprintf(" that begins in line %d", at.ContextMark.Line)
		}
		what += ")"
	}
	if strings.Contains(lineOf(text, line), "\t") {
		what += "; indent with spaces, not with tabs"
	}
	f.fail(line, "%w", &explained{"this is no YAML: " + what, ErrFile})
}

func lineOf(text []byte, number int) string {
	for line := range strings.Lines(string(text)) {
		if number--; number == 0 {
			return line
		}
	}
	return ""
}

// setting finds the flag of a key.
func (f *settingsFile) setting(key, value *yaml.Node) (setting, error) {
	s := setting{key: key.Value, line: key.Line, value: value}
	if key.Kind != yaml.ScalarNode || key.Tag != "!!str" {
		return s, fmt.Errorf("got %s as a key, want the name of a setting", nodeName(key))
	}
	flag := f.flags.Lookup(key.Value)
	v, ours := (*flagValue)(nil), false
	if flag != nil {
		v, ours = flag.Value.(*flagValue)
	}
	switch {
	case ours && v.field.flagOnly:
		return s, fmt.Errorf("%s: can't be set in a file, want it as a flag or in the environment", key.Value)
	case ours && !v.field.hidden:
		s.field = v.field
		return s, nil
	}
	err := fmt.Errorf("%s: no setting has this name", key.Value)
	switch near := Nearest(key.Value, settingNames(f.flags)); {
	case near != "":
		err = fmt.Errorf("%w, want %s?", err, near)
	case value.Kind == yaml.MappingNode:
		err = fmt.Errorf("%w; settings are not grouped: write them at the left margin", err)
	default:
		err = fmt.Errorf("%w; \"rankd config example\" lists them", err)
	}
	return s, err
}

// settingNames lists what may stand in a file.
func settingNames(fs *pflag.FlagSet) (names []string) {
	fs.VisitAll(func(f *pflag.Flag) {
		if v, ours := f.Value.(*flagValue); ours && !v.field.hidden && !v.field.flagOnly {
			names = append(names, f.Name)
		}
	})
	return names
}
