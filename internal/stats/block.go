package stats

// Add adds n to a counter.
func (b *Block) Add(c Counter, n uint64) {
	if recording {
		b.counters[c].Add(n)
	}
}

// Inc adds one to a counter.
func (b *Block) Inc(c Counter) { b.Add(c, 1) }

// Load reads a counter.
func (b *Block) Load(c Counter) uint64 { return b.counters[c].Load() }

// Set stores a gauge.
func (b *Block) Set(g Gauge, v int64) { b.gauges[g].Store(v) }

// Move adds delta to a gauge.
func (b *Block) Move(g Gauge, delta int64) { b.gauges[g].Add(delta) }

// Gauge reads a gauge.
func (b *Block) Gauge(g Gauge) int64 { return b.gauges[g].Load() }

// ClearGauges sets every gauge to zero. The supervisor calls it after it has reaped the block's process (I1).
func (b *Block) ClearGauges() {
	for i := range b.gauges {
		b.gauges[i].Store(0)
	}
}

// SetBucketRows names the compiled batch size in place i, 0 <= i < MaxBuckets.
func (b *Block) SetBucketRows(i, rows int) { b.bucketRows[i].Store(uint32(rows)) }

// Launch counts a launch of the batch size in place i.
func (b *Block) Launch(i int) { b.launches[i].Add(1) }

// Launches reads the launches of the batch size in place i.
func (b *Block) Launches(i int) uint64 { return b.launches[i].Load() }

// Observe puts a value into a histogram: nanoseconds, or rows for BatchSize. A negative value counts as zero.
func (b *Block) Observe(h Histogram, value int64) {
	if !recording {
		return
	}
	v := uint64(max(value, 0))
	b.histograms[h].buckets[sizeSlot(v)].Add(1)
	b.histograms[h].sum.Add(v)
}
