package executor

import (
	"context"
	"errors"
)

// ErrDead is wrapped by errors after which the executor cannot be used again: the process should exit and be restarted.
var ErrDead = errors.New("device is unusable")

// Batch is one launch. Rows [Rows, Bucket) of the arrays hold old data of any kind (padding).
type Batch struct {
	Bucket int      // rows of the compiled program
	Rows   int      // rows that carry requests, 1 <= Rows <= Bucket
	Arrays [][]byte // per packed array: Bucket × stride bytes, little-endian, 64-byte aligned, row-major
	Scores []byte   // Bucket × score bytes a row, written by the executor, row-major
}

// Executor runs batches on a device.
type Executor interface {
	// Name says what runs the batches, for logs and status: "pjrt cpu (...)", "sim (simulated accelerator)".
	Name() string
	// Simulated reports whether figures of this executor must be labelled simulated.
	Simulated() bool
	// Depth is the number of launches that may usefully be in flight, at least 1.
	Depth() int
	// Compile makes the bucket ready to launch. It is called for every bucket before the first Launch, from one goroutine.
	// Its errors wrap ErrPermanent where another try would end the same way.
	Compile(ctx context.Context, bucket int) error
	// Launch starts one batch whose bucket was compiled. See the package's invariants for who owns the memory.
	Launch(b *Batch, done func(error)) error
	// Close waits for launches in flight and frees the device.
	Close() error
}
