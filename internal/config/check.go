package config

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Check compares every tagged field of the struct that c points to with its bounds and returns all violations joined, or
// nil. The bounds of a list hold for each of its items.
func Check(c any) error {
	var errs []error
	for _, f := range fields(c) {
		for _, item := range items(f.value) {
			if err := checkOne(f, item); err != nil {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

func items(v reflect.Value) []reflect.Value {
	if v.Kind() != reflect.Slice {
		return []reflect.Value{v}
	}
	out := make([]reflect.Value, v.Len())
	for i := range out {
		out[i] = v.Index(i)
	}
	return out
}

func checkOne(f field, v reflect.Value) error {
	got := formatValue(v)
	if v.Kind() == reflect.String {
		if f.oneof != "" && !slices.Contains(strings.Split(f.oneof, "|"), got) {
			return fmt.Errorf("check --%s: got %q, want %s", f.name, got, boundText(f))
		}
		if f.value.Kind() == reflect.Slice && got == "" {
			return fmt.Errorf("check --%s: got an empty item, want none", f.name)
		}
		return nil
	}
	low, _ := parseBound(f, f.min)
	high, _ := parseBound(f, f.max)
	// Written so that NaN, which compares false with everything, is refused wherever there is a bound.
	if (low.IsValid() && !lessEqual(low, v)) || (high.IsValid() && !lessEqual(v, high)) {
		return fmt.Errorf("check --%s: got %s, want %s", f.name, got, boundText(f))
	}
	return nil
}

// parseBound reads a bound with the syntax of the field's item type; the zero Value means that there is none.
func parseBound(f field, text string) (reflect.Value, error) {
	if text == "" {
		return reflect.Value{}, nil
	}
	t := f.value.Type()
	if t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() == reflect.String || t.Kind() == reflect.Bool {
		return reflect.Value{}, fmt.Errorf("kind %s has no bounds", t)
	}
	return parseValue(t, text)
}

func lessEqual(a, b reflect.Value) bool {
	switch {
	case a.CanInt():
		return a.Int() <= b.Int()
	case a.CanUint():
		return a.Uint() <= b.Uint()
	default:
		return a.Float() <= b.Float()
	}
}

// boundText says what values a field takes, or "" when everything of its kind.
func boundText(f field) string {
	switch {
	case f.oneof != "":
		return alternatives(strings.Split(f.oneof, "|"))
	case f.min != "" && f.max != "":
		return f.min + ".." + f.max
	case f.min != "":
		return "at least " + f.min
	case f.max != "":
		return "at most " + f.max
	}
	return ""
}

// alternatives writes "a", "a or b", "a, b or c".
func alternatives(list []string) string {
	if len(list) < 2 {
		return strings.Join(list, "")
	}
	last := len(list) - 1
	return strings.Join(list[:last], ", ") + " or " + list[last]
}
