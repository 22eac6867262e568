package config

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// Leaves lists the errors that were joined in err, one for each line of a report.
func Leaves(err error) []error {
	if err == nil {
		return nil
	}
	joined, many := err.(interface{ Unwrap() []error })
	if !many {
		return []error{err}
	}
	var all []error
	var text []string
	for _, e := range joined.Unwrap() {
		all = append(all, Leaves(e)...)
		text = append(text, e.Error())
	}
	if err.Error() != strings.Join(text, "\n") { // it wraps several and is one
		return []error{err}
	}
	return all
}

var (
	aboutFlag  = regexp.MustCompile(`^check --([a-z][a-z0-9-]*): `)
	flagInText = regexp.MustCompile(`--([a-z][a-z0-9-]*)`)
)

// Explain adds to each of the errors joined in err where the values of the flags that it names come from: a message about
// --frontends names the file and the line if it stands in one. Errors about flags whose value could not be read are left
// out: it was said already, and the value is another.
func (o Origins) Explain(err error) error {
	var out []error
	for _, leaf := range Leaves(err) {
		text := leaf.Error()
		names := flagInText.FindAllStringSubmatch(text, -1)
		if slices.ContainsFunc(names, func(m []string) bool { return o[m[1]].Bad }) {
			continue
		}
		first := ""
		if m := aboutFlag.FindStringSubmatch(text); m != nil {
			first = m[1]
		}
		out = append(out, o.explain(leaf, first, names))
	}
	return errors.Join(out...)
}

// explain is for one error: first is the flag that it begins with, names are all that it names.
func (o Origins) explain(err error, first string, names [][]string) error {
	text := err.Error()
	switch origin := o[first]; origin.Source {
	case FromFile:
		text = origin.Place + ": " + strings.TrimPrefix(text, "check --")
	case FromEnvironment:
		text = origin.Place + " in the environment: " + strings.TrimPrefix(text, "check --"+first+": ")
	default:
		first = ""
	}
	said := map[string]bool{first: true}
	var places []string
	for _, m := range names {
		origin := o[m[1]]
		if !said[m[1]] && (origin.Source == FromFile || origin.Source == FromEnvironment) {
			places = append(places, fmt.Sprintf("--%s stands in %s", m[1], origin.Place))
		}
		said[m[1]] = true
	}
	if len(places) > 0 {
		text += " (" + strings.Join(places, ", ") + ")"
	}
	if text == err.Error() {
		return err
	}
	return &explained{text, err}
}

// explained is an error with a text of its own.
type explained struct {
	text string
	err  error
}

func (e *explained) Error() string { return e.text }
func (e *explained) Unwrap() error { return e.err }

// Idle lists the settings that somebody has made and that have no effect, because of the value of another.
func (o Origins) Idle(fs *pflag.FlagSet) (messages []string) {
	fs.VisitAll(func(f *pflag.Flag) {
		v, ours := f.Value.(*flagValue)
		if !ours || o[f.Name].Source == FromDefault {
			return
		}
		name, values, conditional := strings.Cut(v.field.when, "=")
		if other := fs.Lookup(name); conditional && other != nil && !slices.Contains(strings.Split(values, "|"), other.Value.String()) {
			messages = append(messages, fmt.Sprintf("--%s (%s) has no effect: it needs --%s %s, which is %s",
				f.Name, o[f.Name], name, alternatives(strings.Split(values, "|")), other.Value))
		}
	})
	return messages
}
