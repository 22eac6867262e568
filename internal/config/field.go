package config

import (
	"fmt"
	"reflect"
	"strings"
	"time"
)

// field is one tagged field of a config struct; value is addressable and settable.
type field struct {
	name, unit, help string
	min, max, oneof  string
	when             string // "flag=a|b": it has an effect only while that flag has one of these values
	hidden           bool
	flagOnly         bool // it cannot stand in a file
	value            reflect.Value
}

var (
	durationType = reflect.TypeFor[time.Duration]()
	bytesType    = reflect.TypeFor[Bytes]()
	kinds        = map[reflect.Type]bool{
		reflect.TypeFor[bool]():     true,
		reflect.TypeFor[int]():      true,
		reflect.TypeFor[int64]():    true,
		reflect.TypeFor[uint32]():   true,
		reflect.TypeFor[float64]():  true,
		reflect.TypeFor[string]():   true,
		durationType:                true,
		bytesType:                   true,
		reflect.TypeFor[[]int]():    true,
		reflect.TypeFor[[]string](): true,
	}
)

// fields lists the tagged fields of the struct that c points to, in the order of declaration. It panics on a struct that
// cannot be bound.
func fields(c any) []field {
	v := reflect.ValueOf(c)
	if v.Kind() != reflect.Pointer || v.IsNil() || v.Elem().Kind() != reflect.Struct {
		panic(fmt.Sprintf("bind config: got %T, want a pointer to a struct", c))
	}
	return appendFields(nil, v.Elem())
}

func appendFields(out []field, v reflect.Value) []field {
	for i := range v.NumField() {
		sf := v.Type().Field(i)
		name, tagged := sf.Tag.Lookup("flag")
		switch {
		case tagged && !sf.IsExported():
			panic(fmt.Sprintf("bind config: field %s.%s has a flag but is not exported", v.Type(), sf.Name))
		case tagged && !kinds[sf.Type]:
			panic(fmt.Sprintf("bind config: flag --%s has kind %s, which is not supported", name, sf.Type))
		case tagged:
			out = append(out, field{
				name: name, unit: sf.Tag.Get("unit"), help: sf.Tag.Get("help"),
				min: sf.Tag.Get("min"), max: sf.Tag.Get("max"), oneof: sf.Tag.Get("oneof"),
				when: sf.Tag.Get("when"), hidden: sf.Tag.Get("hidden") == "true", flagOnly: sf.Tag.Get("file") == "no",
				value: v.Field(i),
			})
		case sf.Type.Kind() == reflect.Struct && sf.IsExported():
			out = appendFields(out, v.Field(i))
		}
	}
	return out
}

// about is what a field is for, in one sentence.
func (f *field) about() string {
	if name, values, ok := strings.Cut(f.when, "="); ok {
		return f.help + "; only with --" + name + " " + alternatives(strings.Split(values, "|"))
	}
	return f.help
}
