// Package device opens the executor for a model bundle: a PJRT device with the bundle's program and weights, or the
// simulated accelerator with the bundle's row layout. The device owner and the model checker both start here.
//
// # Nouns
//
//   - kind: KindPJRT or KindSim.
//   - bundle: the model on disk; its weights are read during Open only, its programs at every Compile.
//   - cache: the folder in which a PJRT device keeps compiled programs for the next process; see the pjrt package.
//   - executables: compiled programs that came with the bundle, for a PJRT device.
//
// # Invariants
//
//	I1  An executor that is simulated says so: executor.Simulated and its name.
//
// # Failure
//
// Open names the kind, the file or the manifest's field that is wrong, and marks with executor.ErrPermanent what another try
// would not mend. Nothing stays open after an error.
package device
