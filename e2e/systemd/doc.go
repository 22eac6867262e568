// Package systemd tests the Debian package and the service in a real systemd: a container that is booted by systemd-nspawn on an
// overlay of this machine's own root, so that nothing of the machine changes.
//
// # Nouns
//
//   - machine: the container. It has processes, mounts and a /run of its own, and the network of its host.
//   - package: what "make deb" has built; RANKD_DEB names its directory.
//
// # Invariants
//
//	I1  A machine writes into its overlay only, which is memory and gone with the test.
//	I2  Only processes of the machine are signalled, by their pid in it.
//
// # Layout
//
// machine_test.go: boot, run commands, end. The other files have a subject each.
//
// # Failure
//
// Without root, systemd-nspawn or RANKD_SYSTEMD=1 the tests are skipped with the reason; "make systemd" sets the last. A machine
// that does not boot fails with its console.
package systemd
