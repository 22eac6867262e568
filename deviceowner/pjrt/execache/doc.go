// Package execache keeps compiled programs in a folder, so that a process that starts again need not compile them again, and
// reads those that were compiled ahead of time and came with a model.
// It stores bytes under keys and knows nothing of what they mean, but it treats them as what they are: code that will run.
//
// # Nouns
//
//   - key: everything that a compiled program depends on. Two programs are interchangeable if and only if their keys are equal.
//   - image: a compiled program as bytes.
//   - entry: a file with a header, a key and an image.
//   - cache: a folder of entries of this user's processes, which write and prune it.
//   - shelf: a folder of entries that somebody has filled and listed, such as that of a model bundle. It is only read.
//   - trial: the time between reading an entry and the word that its image works. A marker file in the cache stands for it.
//
// # Invariants
//
//	I1  An image is returned only if its entry is complete and undamaged (SHA-256 over everything) and its key is the one asked for.
//	I2  Nothing is read from a cache of another user, from a shelf of another user than this one and root, or from what others may
//	    write to. What is created in a cache is for this user alone.
//	I3  A reader sees an entry whole or not at all, whatever other processes do at the time and wherever a writer is killed. A
//	    shelf's list names only entries that are complete.
//	I4  An entry in whose trial a process died is not read again: a program that kills its process does so once. An image of a
//	    shelf is marked as bad in the cache instead.
//	I5  The cache does not grow beyond its bound, and of one model and bucket only the last few entries stay. Files that are not
//	    of the cache are left alone.
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
// An entry of a cache is named <model>.b<bucket>.<hash of the key>.exe, its trial marker adds .<pid>-<n>.trial, the mark of a bad
// foreign image adds .bad, and files that are being written end in .tmp. The time of last change of an entry is that of its last use.
//
// A shelf has a list, index.json, and entries named <model>.b<bucket>.<start of the file's SHA-256>.exe. See docs/bundle.md.
//
// # Concurrency
//
// Any number of processes may use a cache at once, and any number of goroutines a Cache. There are no locks to wait for:
// entries are complete before they are renamed to their names, two writers of one entry write the same, and a marker is
// locked by its process as long as that lives, which is how others tell a running trial from one that ended badly.
//
// A shelf has any number of readers and at most one Filler, which locks the folder. A reader with an old list may miss a file
// that a Filler has removed; it compiles then.
//
// # Failure
//
// Load wraps fs.ErrNotExist if there is no entry, and ErrUnusable if there is one that must not be trusted; a Store replaces it.
// A process killed in a trial costs one compilation, even if the image was not the reason. A Filler killed before its Commit
// leaves files that are not listed, which the next one removes.
package execache
