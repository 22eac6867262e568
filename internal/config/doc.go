// Package config binds documented structs to command-line flags, the environment and a file. Flags are the truth: a
// supervisor hands a child its whole configuration as arguments, and the child reads back exactly the struct that was sent.
//
// # Nouns
//
//   - config struct: one a role; each field with a `flag` tag is one flag. Nested structs without that tag are flattened.
//   - section: a config struct with a title. Help, pages and example files show settings by section.
//   - tags: flag (name), unit ("file" and "directory" show in help as FILE and DIR), help, min and max (bounds, in the syntax of the flag), oneof ("a|b|c"), when ("flag=a|b": it has
//     an effect only while that flag has one of these values), hidden ("true"), file ("no": it cannot stand in a file).
//   - Bytes: a number of bytes, written "4096", "16MiB" or "1.5GiB".
//   - kinds: bool, int, int64, uint32, float64, string, time.Duration, Bytes, []int, []string.
//   - file: YAML with one setting a line, named as the flag. It has no groups: a name says all, in a file as on the command line.
//   - origin: where the value of a flag comes from.
//
// # Invariants
//
//	I1  Parsing ToArgs(c) into any struct of c's type gives c, provided that empty lists are nil and list items are not empty.
//	I2  Precedence is flag, environment, file, default: each source fills only what a stronger one left alone.
//	I3  Check, and Fill, report every violation, not only the first; each names the flag, what it got and what it wants.
//	I4  What is wrong in a file is reported with file and line; no setting of a file is passed over silently.
//	I5  A file that Effective or Example wrote gives the values that it was written from.
//
// # Files
//
// A value has the YAML type of its kind: numbers and switches without quotes, durations and bytes as text ("10ms", "16MiB"), lists as
// lists. What YAML would read in a way of its own (010, 1_000, a version 1.10 that becomes 1.1) is refused where it stands.
// The parser is go.yaml.in/yaml, of which only nodes are used: their text goes to the flag, so that a value means the same
// wherever it comes from.
//
// # Concurrency
//
// A struct belongs to one goroutine until Check has passed; afterwards it is only read.
//
// # Failure
//
// A tag that cannot be used (an unknown kind, a flag named twice, a bound that does not parse) is a bug of ours and panics
// when the flags are bound. What a person typed comes back as an error: that of the command line from the parser, which stops at the
// first, or after DeferErrors from Fill, which tells all; only a flag that does not exist stops the parser then. Explain finds the flags in messages by "--name",
// which is how every package writes them; one that is not found costs the message its place and nothing else.
//
// # Example
//
//	type Config struct {
//		MaxRequest config.Bytes  `flag:"max-request-bytes" unit:"bytes" min:"1KiB" max:"1GiB" help:"largest request taken"`
//		Drain      time.Duration `flag:"drain-timeout" unit:"duration" min:"0s" help:"longest drain"`
//	}
//	c := Default()
//	config.Bind(cmd.Flags(), &c)
package config
