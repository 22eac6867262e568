// Package bind matches the tensors of a decoded request with the inputs of a model: which ids of which table belong to
// which row, and where each row's dense features lie. It copies nothing but the offsets of ragged bags.
//
// # Nouns
//
//   - Binder: a model's inputs, prepared once.
//   - Query: a request bound to a model: rows, a bag of ids for every table and row, dense features, outputs wanted.
//   - form: one of the ways to bring a table's ids: its own tensor, ragged bags, or the packed tensor of all tables.
//   - batch: the rows of one input: the request's rows, or 1, which then serves every row (broadcast).
//
// # Inputs
//
// The ids of table t, int32 or int64, in exactly one of these forms, whatever the other tables use:
//
//	t          [B, hot]  hot is the table's hotness; a ragged table takes any hot of 1 or more. [B] if the hotness is 1.
//	t.values   [nnz]     with t.lengths [B] or t.offsets [B+1], int32 or int64, and optionally t.weights [nnz] float32
//	ids        [B, sum]  the ids of all tables in the manifest's order, if each has a fixed hotness
//
// Lengths are not negative and add up to nnz. Offsets begin with 0, never fall and end with nnz. Empty bags are allowed.
//
// The dense input d is [B, width], or [B] if the width is 1: float32 is copied bit by bit, float16 and bfloat16 are widened
// exactly, float64 is rounded to the nearest float32, ties to even (so large values become infinities). NaN and infinities
// are data like any other.
//
// A request has at least one row: an input with a batch of 0 is refused. int32 ids are widened exactly. Every other
// element type is refused, also where its values would fit.
//
// # Invariants
//
//	I1  Of a bound query every byte that Bags and CopyDense can refer to, for rows [0, Rows), exists. Id values are not
//	    looked at: tables.Set.Validate does that.
//	I2  Every input of the model comes exactly once in one form, and no other input comes.
//	I3  Binding takes time linear in the size of the request, and memory for row counts only after the data of as many
//	    rows has been seen to be there.
//	I4  Binding and CopyDense allocate nothing once the Query has been used for a request of that kind.
//
// # Layout
//
// binder.go prepares a model, query.go is the flow, forms.go and ragged.go bind a table, dense.go dense inputs.
//
// # Concurrency
//
// A Binder is read-only and shared. A Query belongs to one goroutine while it is bound; afterwards any number may read it.
//
// # Failure
//
// Refusals are *wire.Error that name the input, what came and what is wanted. A refused Query holds nothing of use; bind it
// again or Reset it.
package bind
