package config

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strconv"

	"go.yaml.in/yaml/v4"
)

// decimal is how whole numbers are written; YAML takes 010 for eight and 1_000 for a thousand, and flags do not.
var decimal = regexp.MustCompile(`^[-+]?(0|[1-9][0-9]*)$`)

// nodeText is the text that the flag would be given for a value.
func nodeText(n *yaml.Node, f field) (string, error) {
	t := f.value.Type()
	list := t.Kind() == reflect.Slice
	switch {
	case n.Kind == yaml.ScalarNode && n.Tag == "!!null" && t.Kind() == reflect.String && f.oneof == "":
		return "", errors.New(`got nothing, want text: write "" for none, or leave the line out for the default`)
	case n.Kind == yaml.ScalarNode && n.Tag == "!!null":
		return "", fmt.Errorf("got nothing, want %s: leave the line out for the default", fileWant(f))
	case n.Kind == yaml.ScalarNode && t.Kind() == reflect.String && f.oneof == "" && n.Tag != "!!str":
		return "", fmt.Errorf("got %s, want text: write %q", nodeName(n), n.Value)
	case n.Tag == "!!int" && !decimal.MatchString(n.Value):
		return "", fmt.Errorf("got %s, want %s, in plain digits", nodeName(n), fileWant(f))
	case list != (n.Kind == yaml.SequenceNode), !list && !fits(n, t):
		return "", fmt.Errorf("got %s, want %s", nodeName(n), fileWant(f))
	case !list:
		return n.Value, nil
	}
	items := make([]string, len(n.Content))
	for i, item := range n.Content {
		if !fits(item, t.Elem()) {
			return "", fmt.Errorf("item %d: got %s, want %s", i+1, nodeName(item), fileWant(f))
		}
		if items[i] = item.Value; items[i] == "" {
			return "", fmt.Errorf("item %d: got an empty text, want none like that", i+1)
		}
	}
	return joinList(items), nil
}

// fits reports whether a scalar has the YAML type that a value of type t is written with. What its text says is the flag's
// business.
func fits(n *yaml.Node, t reflect.Type) bool {
	if n.Kind != yaml.ScalarNode {
		return false
	}
	number := n.Tag == "!!int" && decimal.MatchString(n.Value)
	switch {
	case t == durationType: // zero needs no unit
		return n.Tag == "!!str" || n.Tag == "!!int" && n.Value == "0"
	case t == bytesType:
		return n.Tag == "!!str" || number
	}
	switch t.Kind() {
	case reflect.Bool:
		return n.Tag == "!!bool"
	case reflect.String:
		return n.Tag == "!!str"
	case reflect.Float64:
		return n.Tag == "!!float" || number
	}
	return number
}

// fileWant says in words what a setting looks like in a file.
func fileWant(f field) string {
	t := f.value.Type()
	want := wantText(t)
	switch {
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.String:
		want = "a list such as [a, b]"
	case t.Kind() == reflect.Slice:
		want = "a list of whole numbers such as [1, 4, 16]"
	case f.oneof != "":
		return boundText(f)
	case t.Kind() == reflect.String:
		want = "text"
	}
	if b := boundText(f); b != "" {
		want += " (" + b + ")"
	}
	return want
}

// nodeName describes a value that is of the wrong type.
func nodeName(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a group of settings"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "a reference to *" + n.Value
	}
	text := strconv.Quote(n.Value)
	if len(text) > 60 {
		text = text[:60] + `..."`
	}
	switch n.Tag {
	case "!!null":
		return "nothing"
	case "!!bool", "!!int", "!!float":
		return n.Value
	case "!!str":
		return text
	}
	return fmt.Sprintf("%s of type %s", text, n.Tag)
}
