// Package top shows a server in a terminal, as its status page does in a browser: what it does now, its last minutes, its processes,
// and what happened to it.
//
// # Nouns
//
//   - source: where the status and the samples come from, over HTTP.
//   - screen: what is shown. It is renewed every second, and fits the terminal.
//
// # Invariants
//
//	I1  A server that does not answer is shown as such, with what was known and since when; the screen stays.
//	I2  What is shown never has more lines or columns than the terminal.
//
// # Layout
//
// source.go: reading. screen.go: the program. Text and charts are those of package supervisor (WriteText).
//
// # Failure
//
// A server that never answered is an error with its address. One that stops to answer is told on the screen, and read again.
package top
