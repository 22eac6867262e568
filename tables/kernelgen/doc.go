// Command kernelgen writes the assembly kernels of package tables. It is a module of its own, so that what it needs is needed by
// nobody who builds rankd. generate.sh beside it runs it.
//
// # Nouns
//
//   - tile: a function that pools some cache lines of one bag; tables.tileFunc says what it must give.
//   - kernel: the tiles of 1, 2, 4 and, where there are registers enough, 8 lines for one set of vector instructions.
//
// # Invariants
//
//	I1  A tile reads its lines of the rows named, weights and one factor, and writes its lines; it only prefetches more.
//	I2  A tile adds in the order of the ids, in float32, and rounds each product before it is added.
//
// # Failure
//
// What it writes is committed; a wrong kernel is found by the tests of package tables, which compare every kernel with the
// portable one.
package main
