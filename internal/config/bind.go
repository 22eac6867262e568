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

// flagValue is a field seen as a pflag.Value.
type flagValue struct {
	v   reflect.Value
	set bool // a list that was set is appended to, one that holds its default is replaced
}

func (f *flagValue) String() string {
	if !f.v.IsValid() { // pflag looks at a zero value to find out about defaults
		return ""
	}
	return formatValue(f.v)
}

func (f *flagValue) Type() string { return kindName(f.v.Type()) }

func (f *flagValue) Set(text string) error {
	x, err := parseValue(f.v.Type(), text)
	if err != nil {
		return err
	}
	if f.set && f.v.Kind() == reflect.Slice {
		x = reflect.AppendSlice(f.v, x)
	}
	f.v.Set(x)
	f.set = true
	return nil
}

// Bind registers one flag for each tagged field of the struct that c points to. The current values are the defaults;
// parsing writes into c. A flag of kind list may be repeated: its items are gathered.
func Bind(fs *pflag.FlagSet, c any) {
	for _, f := range fields(c) {
		for _, bound := range []string{f.min, f.max} {
			if _, err := parseBound(f, bound); err != nil {
				panic(fmt.Sprintf("bind config: bound of --%s: %v", f.name, err))
			}
		}
		flag := fs.VarPF(&flagValue{v: f.value}, f.name, "", usage(f))
		flag.Hidden = f.hidden
		if f.value.Kind() == reflect.Bool {
			flag.NoOptDefVal = "true"
		}
	}
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
