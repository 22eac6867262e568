// Package systemd has the unit files under which rankd runs as a service, and puts them together for a machine: for the
// package that installs them below /usr, and for "rankd service install", which writes them below /etc.
//
// # Nouns
//
//   - unit: a file that systemd reads. rankd.service is the server, rankd@.service one of several servers.
//   - tables mount: a tmpfs that gives files huge pages without asking. It is a unit of its own, so that what lies in it outlives the
//     service, its upgrade and its crash.
//   - layout: which binary, user and configuration the units name, and where the files go.
//
// # Invariants
//
//	I1  A unit names nothing that its layout does not have: binary, user, configuration file.
//	I2  A server runs without root, without capabilities, and can write to the tables mount, its state, its cache and /run only.
//	I3  Whatever a configuration mistake ends with (exit code 78) is not started again; every other end is.
//	I4  Files of the layout that a person may have edited (the configuration) are never overwritten or removed.
//
// # Layout
//
// The files *.tmpl are text/template files with a Layout as their data. unit.go lists them; files.go writes and removes them.
//
// # Failure
//
// A file is replaced in one step. Writing that fails in the middle leaves the files written so far, and the same command goes on.
package systemd
