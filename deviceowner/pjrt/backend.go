package pjrt

// backend is the device as the executor uses it. The real one is xlaDevice; tests put another in its place to make it fail.
type backend interface {
	// describe names the device for logs.
	describe() string
	// compile returns the program for one batch size after one run of it on zeros whose result had the right form.
	compile(bucket int, program []byte) (runner, error)
	// close frees the device. All runners are closed by then.
	close() error
}

// runner is one compiled bucket. run may be called from several goroutines at once; close may not.
type runner interface {
	// run scores arrays (bucket × stride bytes each) into scores (bucket × score bytes) and returns when both are free again.
	run(arrays [][]byte, scores []byte) error
	close() error
}
