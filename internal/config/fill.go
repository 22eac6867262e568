package config

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"
)

// FileFlag is the flag that names the configuration file, where a command has it.
const FileFlag = "config"

// Source is a kind of place where a value comes from, the weakest first.
type Source int

// The sources, in the order of I2.
const (
	FromDefault Source = iota
	FromFile
	FromEnvironment
	FromFlag
)

// Origin says where a value comes from.
type Origin struct {
	Source Source
	Place  string   // "FILE:LINE", or the environment variable
	Bad    bool     // what stands there could not be read, so the flag has another value
	Over   []string // weaker places that have a value, too
}

// String is the origin for people.
func (o Origin) String() string {
	text := o.Place
	switch o.Source {
	case FromFlag:
		text = "flag"
	case FromDefault:
		text = "default"
	}
	if len(o.Over) > 0 {
		text += ", over " + strings.Join(o.Over, " and ")
	}
	return text
}

// Origins has the origin of every flag that does not have its default, by name.
type Origins map[string]Origin

// Of is the origin of a flag.
func (o Origins) Of(flag string) Origin { return o[flag] }

// Count says how many values come from a source.
func (o Origins) Count(s Source) (n int) {
	for _, origin := range o {
		if origin.Source == s {
			n++
		}
	}
	return n
}

// Summary says for people how many settings come from where; file is the configuration file, or "".
func (o Origins) Summary(file string) string {
	var parts []string
	add := func(s Source, where string) {
		n := 0
		for name, origin := range o {
			if origin.Source == s && name != FileFlag {
				n++
			}
		}
		switch {
		case n == 1:
			parts = append(parts, "1 setting "+where)
		case n > 1 || s == FromFile && file != "":
			parts = append(parts, fmt.Sprintf("%d settings %s", n, where))
		}
	}
	add(FromFile, "from "+file)
	add(FromEnvironment, "from the environment")
	add(FromFlag, "from flags")
	if len(parts) == 0 {
		return "all settings have their defaults"
	}
	return strings.Join(append(parts, "the others have their defaults"), ", ")
}

// Fill gives every flag that the command line left alone the value of its environment variable or, failing that, that of
// the file which the flag "config" names, if there is such a flag (I2). It returns where the values come from and
// everything that could not be read, joined; flags for which there was something like that keep what they had.
func Fill(fs *pflag.FlagSet) (Origins, error) {
	origins := Origins{}
	errs := []error{origins.commandLine(fs), origins.environment(fs)}
	if f := fs.Lookup(FileFlag); f != nil && f.Value.String() != "" {
		errs = append(errs, origins.file(fs, f.Value.String()))
	}
	return origins, errors.Join(errs...)
}

// commandLine notes what flags have set, and tells what they could not be set to.
func (o Origins) commandLine(fs *pflag.FlagSet) error {
	deferErrors(fs, false) // what follows is told at once
	var errs []error
	fs.Visit(func(f *pflag.Flag) {
		origin := Origin{Source: FromFlag}
		if v, ours := f.Value.(*flagValue); ours && v.bad != nil {
			origin.Bad = true
			errs = append(errs, fmt.Errorf("check --%s: %w", f.Name, v.bad))
		}
		o[f.Name] = origin
	})
	return errors.Join(errs...)
}

// environment sets what no flag has set.
func (o Origins) environment(fs *pflag.FlagSet) error {
	var errs []error
	fs.VisitAll(func(f *pflag.Flag) {
		name := EnvName(f.Name)
		text, ok := os.LookupEnv(name)
		if !ok {
			return
		}
		if origin := o[f.Name]; origin.Source > FromEnvironment {
			origin.Over = append(origin.Over, name)
			o[f.Name] = origin
			return
		}
		err := set(fs, f.Name, text)
		o[f.Name] = Origin{Source: FromEnvironment, Place: name, Bad: err != nil}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s in the environment: %w", name, err))
		}
	})
	return errors.Join(errs...)
}

// set is fs.Set without what pflag says around the cause.
func set(fs *pflag.FlagSet, name, text string) error {
	err := fs.Set(name, text)
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) {
		return invalid.Unwrap()
	}
	return err
}
