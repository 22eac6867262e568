package config

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"

	"github.com/spf13/pflag"
)

// flagValue is a flag seen as a pflag.Value: one field, or the fields of the same name of several structs.
type flagValue struct {
	targets []reflect.Value // all of one type, all holding the same value
	set     bool            // a list that was set is appended to, one that holds its default is replaced
}

func (f *flagValue) String() string {
	if len(f.targets) == 0 { // pflag looks at a zero value to find out about defaults
		return ""
	}
	return formatValue(f.targets[0])
}

func (f *flagValue) Type() string { return kindName(f.targets[0].Type()) }

func (f *flagValue) Set(text string) error {
	x, err := parseValue(f.targets[0].Type(), text)
	if err != nil {
		return err
	}
	if f.set && x.Kind() == reflect.Slice {
		x = reflect.AppendSlice(f.targets[0], x)
	}
	for _, v := range f.targets {
		v.Set(x)
	}
	f.set = true
	return nil
}

// Bind registers one flag for each tagged field of the struct that c points to. The current values are the defaults;
// parsing writes into c. A flag of kind list may be repeated: its items are gathered. A flag that another struct has bound
// to the same set is shared: the field takes that flag's default and whatever is parsed.
func Bind(fs *pflag.FlagSet, c any) {
	own := map[string]bool{}
	for _, f := range fields(c) {
		for _, bound := range []string{f.min, f.max} {
			if _, err := parseBound(f, bound); err != nil {
				panic(fmt.Sprintf("bind config: bound of --%s: %v", f.name, err))
			}
		}
		if own[f.name] {
			panic(fmt.Sprintf("bind config: %T names --%s twice", c, f.name))
		}
		own[f.name] = true
		if !share(fs.Lookup(f.name), f) {
			register(fs, f)
		}
	}
}

func register(fs *pflag.FlagSet, f field) {
	flag := fs.VarPF(&flagValue{targets: []reflect.Value{f.value}}, f.name, "", usage(f))
	flag.Hidden = f.hidden
	if f.value.Kind() == reflect.Bool {
		flag.NoOptDefVal = "true"
	}
}

// share adds a field to a flag that exists, and reports whether it does.
func share(flag *pflag.Flag, f field) bool {
	if flag == nil {
		return false
	}
	v, ours := flag.Value.(*flagValue)
	if !ours || v.targets[0].Type() != f.value.Type() {
		panic(fmt.Sprintf("bind config: --%s exists with another kind than %s", f.name, f.value.Type()))
	}
	f.value.Set(v.targets[0])
	v.targets = append(v.targets, f.value)
	return true
}

func usage(f field) string {
	text := f.help
	if b := boundText(f); b != "" {
		text += " (" + b + ")"
	}
	return text
}

// ToArgs gives "--name=value" for every tagged field of c, which is a struct or a pointer to one.
func ToArgs(c any) []string {
	v := reflect.ValueOf(c)
	if v.Kind() == reflect.Struct {
		p := reflect.New(v.Type())
		p.Elem().Set(v)
		c = p.Interface()
	}
	var args []string
	for _, f := range fields(c) {
		args = append(args, "--"+f.name+"="+formatValue(f.value))
	}
	return args
}

// EnvName is the environment variable of a flag: RANKD_ and the name in upper case, "-" as "_".
func EnvName(flag string) string {
	return "RANKD_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// ApplyEnv sets every flag of fs that was not set so far and whose environment variable exists. It returns all errors.
func ApplyEnv(fs *pflag.FlagSet) error {
	var errs []error
	fs.VisitAll(func(f *pflag.Flag) {
		text, ok := os.LookupEnv(EnvName(f.Name))
		if !ok || f.Changed {
			return
		}
		if err := fs.Set(f.Name, text); err != nil {
			errs = append(errs, fmt.Errorf("read environment %s: %w", EnvName(f.Name), err))
		}
	})
	return errors.Join(errs...)
}

// ApplyFile sets every flag of fs that was not set so far and that the file at path names, one "name = value" a line;
// empty lines and lines that start with "#" say nothing. It returns all errors. Call it after ApplyEnv.
func ApplyFile(fs *pflag.FlagSet, path string) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("read config file: %w", err)
	}
	defer file.Close()
	stronger := map[string]bool{}
	fs.Visit(func(f *pflag.Flag) { stronger[f.Name] = true })
	var errs []error
	lines := bufio.NewScanner(file)
	for number := 1; lines.Scan(); number++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		name = strings.TrimSpace(name)
		switch {
		case !ok:
			errs = append(errs, fmt.Errorf("read %s line %d: got %q, want name = value", path, number, line))
		case fs.Lookup(name) == nil:
			errs = append(errs, fmt.Errorf("read %s line %d: no flag is named %q", path, number, name))
		case !stronger[name]:
			if err := fs.Set(name, strings.TrimSpace(value)); err != nil {
				errs = append(errs, fmt.Errorf("read %s line %d: %w", path, number, err))
			}
		}
	}
	return errors.Join(append(errs, lines.Err())...)
}
