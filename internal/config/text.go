package config

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// formatValue is the text of v as it stands after "--name=".
func formatValue(v reflect.Value) string {
	switch x := v.Interface().(type) {
	case bool:
		return strconv.FormatBool(x)
	case float64:
		return strconv.FormatFloat(x, 'g', -1, 64)
	case string:
		return x
	case time.Duration:
		return FormatDuration(x)
	case []int:
		items := make([]string, len(x))
		for i, n := range x {
			items[i] = strconv.Itoa(n)
		}
		return strings.Join(items, ",")
	case []string:
		return joinList(x)
	}
	return fmt.Sprint(v.Interface()) // int, int64, uint32, Bytes
}

// FormatDuration is d.String without units of which there are none: "10m", not "10m0s".
func FormatDuration(d time.Duration) string {
	text := d.String()
	if rest, ok := strings.CutSuffix(text, "m0s"); ok {
		text = rest + "m"
	}
	if rest, ok := strings.CutSuffix(text, "h0m"); ok {
		text = rest + "h"
	}
	return text
}

// parseValue reads text as a value of type t; it is the inverse of formatValue.
func parseValue(t reflect.Type, text string) (reflect.Value, error) {
	x, err := parseAny(t, text)
	if err == nil {
		return reflect.ValueOf(x), nil
	}
	var num *strconv.NumError
	if t == durationType || errors.As(err, &num) { // their own errors name the package
		err = fmt.Errorf("got %q, want %s", text, wantText(t))
		if num != nil && errors.Is(num.Err, strconv.ErrRange) {
			err = fmt.Errorf("%w: %w", err, strconv.ErrRange)
		}
	}
	return reflect.Value{}, err
}

// wantText says in words what a value of type t looks like after "--name=".
func wantText(t reflect.Type) string {
	switch t {
	case durationType:
		return "a duration such as 250us, 10ms or 2m30s"
	case bytesType:
		return "bytes such as 4096, 16MiB or 1.5GiB"
	}
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64, reflect.Uint32:
		return "a whole number"
	case reflect.Float64:
		return "a number"
	case reflect.String:
		return "text"
	}
	if t.Elem().Kind() == reflect.String {
		return "a list such as a,b"
	}
	return "a list of whole numbers such as 1,4,16"
}

func parseAny(t reflect.Type, text string) (any, error) {
	switch t {
	case durationType:
		return time.ParseDuration(text)
	case bytesType:
		return ParseBytes(text)
	}
	switch t.Kind() {
	case reflect.Bool:
		return strconv.ParseBool(text)
	case reflect.Int:
		return strconv.Atoi(text)
	case reflect.Int64:
		return strconv.ParseInt(text, 10, 64)
	case reflect.Uint32:
		n, err := strconv.ParseUint(text, 10, 32)
		return uint32(n), err
	case reflect.Float64:
		return strconv.ParseFloat(text, 64)
	case reflect.String:
		return text, nil
	}
	items, err := splitList(text)
	if err != nil || t.Elem().Kind() == reflect.String {
		return items, err
	}
	var list []int
	for _, item := range items {
		n, err := strconv.Atoi(item)
		if err != nil {
			return nil, err
		}
		list = append(list, n)
	}
	return list, nil
}

func kindName(t reflect.Type) string {
	switch t {
	case durationType:
		return "duration"
	case bytesType:
		return "bytes"
	}
	switch t.Kind() {
	case reflect.Slice:
		return "list of " + t.Elem().Kind().String()
	default:
		return t.Kind().String()
	}
}

// joinList writes items separated by commas; a comma or backslash within an item gets a backslash.
func joinList(items []string) string {
	escape := strings.NewReplacer(`\`, `\\`, `,`, `\,`)
	escaped := make([]string, len(items))
	for i, s := range items {
		escaped[i] = escape.Replace(s)
	}
	return strings.Join(escaped, ",")
}

func splitList(text string) ([]string, error) {
	if text == "" {
		return nil, nil
	}
	var items []string
	var item strings.Builder
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && i+1 < len(text):
			i++
			item.WriteByte(text[i])
		case c == ',':
			items = append(items, item.String())
			item.Reset()
		default:
			item.WriteByte(c)
		}
	}
	items = append(items, item.String())
	for i, s := range items {
		if s == "" {
			return nil, fmt.Errorf("got %q with item %d empty, want items separated by single commas", text, i)
		}
	}
	return items, nil
}
