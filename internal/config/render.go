package config

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

// lineWidth is how long lines of example files and help get.
const lineWidth = 100

const exampleHead = `# Configuration of rankd: "rankd serve --config FILE" reads it.
#
# Each setting is a flag of "rankd serve" and stands here with its default. To change one, remove the
# "#" before its name. A flag on the command line wins over an environment variable (--shm-dir is
# RANKD_SHM_DIR), and that wins over this file. Only model must be set. Paths that are not absolute
# begin in the working directory.
#
#   rankd config check FILE                         tells everything that is wrong
#   rankd config print --effective --config FILE    prints every value and where it comes from
#   rankd doctor --config FILE                      looks whether this machine can serve it
#
# Bytes are 4096, 16MiB or 1.5GiB, durations 250us, 10ms or 2m30s, lists [1, 4, 16].
`

// Example is a file with every setting of the sections, each with its meaning and, behind "#", its current value.
func Example(sections []Section) string { return ExampleWith(sections, nil) }

// ExampleWith is Example with some settings set, by their names.
func ExampleWith(sections []Section, values map[string]string) string {
	var b strings.Builder
	b.WriteString(exampleHead)
	for _, s := range sections {
		title := false
		for _, f := range fields(s.Config) {
			if f.hidden || f.flagOnly {
				continue
			}
			if !title {
				fmt.Fprintf(&b, "\n\n# ---- %s ----\n", s.Title)
				title = true
			}
			b.WriteString("\n")
			for _, line := range Wrap(f.inWords(), lineWidth) {
				b.WriteString("# " + line + "\n")
			}
			if v, set := values[f.name]; set {
				fmt.Fprintf(&b, "%s: %s\n", f.name, yamlString(v))
				continue
			}
			fmt.Fprintf(&b, "#%s: %s\n", f.name, yamlText(f.value))
		}
	}
	return b.String()
}

// inWords is the meaning of a field with its unit and bounds.
func (f *field) inWords() string {
	var more []string
	switch f.unit {
	case "", "bytes", "duration", "file", "directory": // the value or the help shows it
	default:
		if !strings.Contains(f.help, f.unit) {
			more = append(more, f.unit)
		}
	}
	if b := boundText(*f); b != "" {
		more = append(more, b)
	}
	if len(more) == 0 {
		return f.about()
	}
	return f.about() + " (" + strings.Join(more, ", ") + ")"
}

// Effective writes the settings of the sections as a file that gives exactly these values, each with its origin in a comment.
// Unless all is set, those that have their default are left out.
func Effective(sections []Section, o Origins, all bool) string {
	var b strings.Builder
	for _, s := range sections {
		title := false
		for _, f := range fields(s.Config) {
			origin := o[f.name]
			if f.hidden || f.flagOnly || !all && origin.Source == FromDefault {
				continue
			}
			if !title {
				if b.Len() > 0 {
					b.WriteString("\n")
				}
				fmt.Fprintf(&b, "# %s\n", s.Title)
				title = true
			}
			fmt.Fprintf(&b, "%-47s # %s\n", f.name+": "+yamlText(f.value), origin)
		}
	}
	return b.String()
}

// yamlText writes a value as it stands in a file, on one line.
func yamlText(v reflect.Value) string {
	switch x := v.Interface().(type) {
	case string:
		return yamlString(x)
	case []string:
		items := make([]string, len(x))
		for i, s := range x {
			items[i] = strconv.Quote(s)
		}
		return "[" + strings.Join(items, ", ") + "]"
	case []int:
		return "[" + strings.ReplaceAll(formatValue(v), ",", ", ") + "]"
	}
	return formatValue(v)
}

// yamlString writes text with quotes where YAML needs them.
func yamlString(s string) string {
	text, err := yaml.Marshal(s)
	line := strings.TrimSuffix(string(text), "\n")
	if err != nil || strings.Contains(line, "\n") || s == "" {
		return strconv.Quote(s)
	}
	return line
}
