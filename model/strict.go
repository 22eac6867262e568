package model

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
)

// decodeStrict reads a JSON value into v, a pointer to a struct, and reports every field that is unknown, repeated, missing
// or of the wrong type, each with its path (I2). Unlike encoding/json it does not match names by case, takes no null for
// "unset", and treats a field without omitempty as required: a manifest that leaves out "hotness" must not become a ragged table.
func decodeStrict(data []byte, v any) error {
	var raw json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil { // also bounds the nesting and refuses trailing data
		return err
	}
	var s strictDecoder
	s.value("", raw, reflect.ValueOf(v).Elem())
	return errors.Join(s.errs...)
}

type strictDecoder struct{ errs []error }

func (s *strictDecoder) fail(path string, err error) {
	if path != "" {
		err = fmt.Errorf("%s: %w", path, err)
	}
	s.errs = append(s.errs, err)
}

func (s *strictDecoder) value(path string, raw json.RawMessage, v reflect.Value) {
	if string(raw) == "null" {
		s.fail(path, errors.New("got null, want a value"))
		return
	}
	if u, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		var text string
		if s.plain(path, raw, reflect.ValueOf(&text).Elem()) {
			if err := u.UnmarshalText([]byte(text)); err != nil {
				s.fail(path, err)
			}
		}
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		s.structure(path, raw, v)
	case reflect.Slice:
		s.slice(path, raw, v)
	case reflect.Map:
		s.stringMap(path, raw, v)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		s.value(path, raw, v.Elem())
	default:
		s.plain(path, raw, v)
	}
}

// plain reads a string or a number.
func (s *strictDecoder) plain(path string, raw json.RawMessage, v reflect.Value) bool {
	if err := json.Unmarshal(raw, v.Addr().Interface()); err != nil {
		s.fail(path, fmt.Errorf("got %s, want %s", abridge(raw), kindName(v.Kind())))
		return false
	}
	return true
}

func kindName(k reflect.Kind) string {
	if k == reflect.String {
		return "a string"
	}
	return "an integer"
}

func abridge(raw json.RawMessage) string {
	const limit = 40
	if len(raw) <= limit {
		return string(raw)
	}
	return string(bytes.ToValidUTF8(raw[:limit], nil)) + "..."
}

func (s *strictDecoder) structure(path string, raw json.RawMessage, v reflect.Value) {
	seen := make([]bool, v.NumField())
	whole := s.object(path, raw, func(key string, value json.RawMessage) {
		for i := range v.NumField() {
			if name, _ := jsonName(v.Type().Field(i)); name == key {
				seen[i] = true
				s.value(join(path, key), value, v.Field(i))
				return
			}
		}
		s.fail(join(path, key), errors.New("unknown field"))
	})
	for i := range v.NumField() {
		if name, required := jsonName(v.Type().Field(i)); whole && required && !seen[i] {
			s.fail(join(path, name), errors.New("missing"))
		}
	}
}

func jsonName(f reflect.StructField) (name string, required bool) {
	name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name, options != "omitempty"
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

func (s *strictDecoder) slice(path string, raw json.RawMessage, v reflect.Value) {
	var items []json.RawMessage
	if err := json.Unmarshal(raw, &items); err != nil {
		s.fail(path, fmt.Errorf("got %s, want an array", abridge(raw)))
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(items), len(items)))
	for i, item := range items {
		s.value(fmt.Sprintf("%s[%d]", path, i), item, v.Index(i))
	}
}

func (s *strictDecoder) stringMap(path string, raw json.RawMessage, v reflect.Value) {
	v.Set(reflect.MakeMap(v.Type()))
	s.object(path, raw, func(key string, value json.RawMessage) {
		item := reflect.New(v.Type().Elem()).Elem()
		s.value(fmt.Sprintf("%s[%q]", path, key), value, item)
		v.SetMapIndex(reflect.ValueOf(key), item)
	})
}

// object reports whether all of the object was read.
func (s *strictDecoder) object(path string, raw json.RawMessage, field func(key string, value json.RawMessage)) bool {
	dec := json.NewDecoder(bytes.NewReader(raw))
	err := decodeObject(dec, func(key string) error {
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return err
		}
		field(key, value)
		return nil
	})
	if err != nil {
		s.fail(path, err)
	}
	return err == nil
}
