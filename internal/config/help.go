package config

import (
	"reflect"
	"strings"

	"github.com/spf13/pflag"
)

// FlagText is a flag in the words of help.
type FlagText struct {
	Placeholder string // what stands for its value; empty for a switch
	About       string
	Limits      []string // unit and bounds
	Default     string   // empty: nothing, or off
}

// Text describes a flag. ok is false for one that no struct was bound to.
func Text(f *pflag.Flag) (text FlagText, ok bool) {
	v, ours := f.Value.(*flagValue)
	if !ours {
		return text, false
	}
	t := v.field.value.Type()
	text = FlagText{About: v.field.about(), Default: f.DefValue}
	if t.Kind() == reflect.Bool {
		text.Default = strings.TrimPrefix(text.Default, "false")
	} else {
		text.Placeholder = placeholderOf(&v.field, t)
	}
	if v.field.unit != "" && text.Placeholder == "N" && !strings.Contains(text.About, v.field.unit) {
		text.Limits = append(text.Limits, v.field.unit)
	}
	if bounds := boundText(v.field); bounds != "" && v.field.oneof == "" {
		text.Limits = append(text.Limits, bounds)
	}
	return text, true
}

func placeholderOf(f *field, t reflect.Type) string {
	switch {
	case f.oneof != "":
		return f.oneof
	case t == durationType:
		return "DURATION"
	case t == bytesType:
		return "BYTES"
	case f.unit == "host:port", f.unit == "file":
		return strings.ToUpper(f.unit)
	case f.unit == "directory":
		return "DIR"
	}
	switch t.Kind() {
	case reflect.String:
		return "TEXT"
	case reflect.Float64:
		return "NUMBER"
	case reflect.Slice:
		if t.Elem().Kind() == reflect.String {
			return "TEXT,..."
		}
		return "N,..."
	}
	return "N"
}

// Wrap breaks text into lines of at most width letters, at spaces.
func Wrap(text string, width int) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines = append(lines, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}
