// Package execache keeps compiled programs in a folder, so that a process that starts again need not compile them again.
// It stores bytes under keys and knows nothing of what they mean, but it treats them as what they are: code that will run.
//
// # Nouns
//
//   - key: everything that a compiled program depends on. Two programs are interchangeable if and only if their keys are equal.
//   - image: a compiled program as bytes.
//   - entry: a file with a header, a key and an image.
//   - trial: the time between reading an entry and the word that its image works. A marker file stands for it.
//
// # Invariants
//
//	I1  An image is returned only if its entry is complete and undamaged (SHA-256 over everything) and its key is the one asked for.
//	I2  Nothing is read from a folder or file of another user, or that others may write to. What is created is for this user alone.
//	I3  A reader sees an entry whole or not at all, whatever other processes do at the time and wherever a writer is killed.
//	I4  An entry in whose trial a process died is not read again: a program that kills its process does so once.
//	I5  The folder does not grow beyond its bound, and of one model and bucket only the last few entries stay. Files that are not of
//	    the cache are left alone.
//
// # Layout
//
// Numbers are little-endian, offsets are bytes. K is the length of the key, at most 64 KiB.
//
//	offset  size  field
//	     0     8  "rankdexe"
//	     8     4  format version, 1
//	    12     4  K
//	    16     8  length of the image
//	    24    32  SHA-256 of the image
//	    56     K  the key as JSON
//	  56+K    32  SHA-256 of everything before
//	  88+K        the image, to the end of the file
//
// An entry is named <model>.b<bucket>.<hash of the key>.exe, its trial marker adds .<pid>-<n>.trial and files that are being
// written end in .tmp. The time of last change of an entry is that of its last use.
//
// # Concurrency
//
// Any number of processes may use a folder at once, and any number of goroutines a Cache. There are no locks to wait for:
// entries are complete before they are renamed to their names, two writers of one entry write the same, and a marker is
// locked by its process as long as that lives, which is how others tell a running trial from one that ended badly.
//
// # Failure
//
// Load wraps fs.ErrNotExist if there is no entry, and ErrUnusable if there is one that must not be trusted; a Store replaces it.
// A process killed in a trial costs one compilation, even if the image was not the reason.
package execache
