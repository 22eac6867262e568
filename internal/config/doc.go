// Package config binds documented structs to command-line flags and the environment. Flags are the truth: a supervisor
// hands a child its whole configuration as arguments, and the child reads back exactly the struct that was sent.
//
// # Nouns
//
//   - config struct: one a role; each field with a `flag` tag is one flag. Nested structs without that tag are flattened.
//   - tags: flag (name), unit, help, min and max (bounds, in the syntax of the flag), oneof ("a|b|c"), hidden ("true").
//   - Bytes: a number of bytes, written "4096", "16MiB" or "1.5GiB".
//   - kinds: bool, int, int64, uint32, float64, string, time.Duration, Bytes, []int, []string.
//
// # Invariants
//
//	I1  Parsing ToArgs(c) into any struct of c's type gives c, provided that empty lists are nil and list items are not empty.
//	I2  Precedence is flag, environment, file, default: each source fills only what a stronger one left alone.
//	I3  Check reports every violation, not only the first; each names the flag, what it got and what it wants.
//
// # Concurrency
//
// A struct belongs to one goroutine until Check has passed; afterwards it is only read.
//
// # Failure
//
// A tag that cannot be used (an unknown kind, a flag named twice, a bound that does not parse) is a bug of ours and panics
// when the flags are bound. What a person typed comes back as an error.
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
