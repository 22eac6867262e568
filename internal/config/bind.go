package config

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/spf13/pflag"
)

// flagValue is a flag seen as a pflag.Value: one field, or the fields of the same name of several structs.
type flagValue struct {
	field   field           // the first of them
	targets []reflect.Value // all of one type, all holding the same value
	set     bool            // a list that was set is appended to, one that holds its default is replaced
	defers  bool            // what can't be read is kept in bad, for Fill to tell with everything else
	bad     error
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
	if err != nil && f.defers {
		f.bad = err
		return nil
	}
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

// Section is a config struct with the title under which pages, help and files show its settings.
type Section struct {
	Title  string
	Config any // pointer to a struct
}

// sectionKey is the annotation of a flag that holds its section's title.
const sectionKey = "rankd_section"

// BindSections is Bind for each section. Help shows a section's flags together.
func BindSections(fs *pflag.FlagSet, sections []Section) {
	for _, s := range sections {
		bind(fs, s.Config, s.Title)
	}
}

// SectionOf is the title of the section that a flag was bound in, or "".
func SectionOf(f *pflag.Flag) string {
	return strings.Join(f.Annotations[sectionKey], "")
}

// Bind registers one flag for each tagged field of the struct that c points to. The current values are the defaults;
// parsing writes into c. A flag of kind list may be repeated: its items are gathered. A flag that another struct has bound
// to the same set is shared: the field takes that flag's default and whatever is parsed.
func Bind(fs *pflag.FlagSet, c any) { bind(fs, c, "") }

func bind(fs *pflag.FlagSet, c any, section string) {
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
			register(fs, f, section)
		}
	}
}

// DeferErrors has values of the command line that can't be read reported by Fill, with all that is wrong elsewhere, and not one by
// one by the parser. Use it only where Fill follows.
func DeferErrors(fs *pflag.FlagSet) { deferErrors(fs, true) }

func deferErrors(fs *pflag.FlagSet, on bool) {
	fs.VisitAll(func(flag *pflag.Flag) {
		if v, ours := flag.Value.(*flagValue); ours {
			v.defers = on
		}
	})
}

func register(fs *pflag.FlagSet, f field, section string) {
	flag := fs.VarPF(&flagValue{field: f, targets: []reflect.Value{f.value}}, f.name, "", usage(f))
	flag.Hidden = f.hidden
	if f.value.Kind() == reflect.Bool {
		flag.NoOptDefVal = "true"
	}
	if section != "" {
		flag.Annotations = map[string][]string{sectionKey: {section}}
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
	text := f.about()
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
