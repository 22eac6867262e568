// Package ahead compiles the programs of a model bundle ahead of time and stores the executables in the bundle, so that a server
// need not compile: for the device of this machine, or for one that is elsewhere.
//
// # Nouns
//
//   - target: what is compiled for: the device of this machine, or a topology, which is a plugin's description of devices that
//     need not be there.
//   - child: the process in which the plugin compiles. It tells its parent by events.
//   - event: a gob message on the child's descriptor 3: a batch size begun, an image, the end, or an error.
//   - shelf: where the executables end up; see package execache.
//
// # Invariants
//
//	I1  The bundle has all executables of a run or none: they are listed together, when the child has ended well.
//	I2  The parent loads no plugin. Whatever a plugin prints, locks or crashes concerns the child.
//	I3  An executable that is for this machine's device has been run on zeros. One for a topology has the form that the manifest
//	    wants, and is first run where it is loaded.
//
// # Concurrency
//
// One run at a time writes to a bundle; a second one is refused. Servers may load from the bundle meanwhile.
//
// # Failure
//
// A child that dies leaves an error with what it was at and the last of what it printed. A parent that is killed leaves files that
// no list names, which the next run removes; its child ends with its next event.
package ahead
