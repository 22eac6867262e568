package pjrt

import (
	"runtime"
	"sync"
	"time"
)

// preloads loads the programs of the expected buckets from the store while the caller does other things. Compile takes each
// of them once.
type preloads struct {
	workers sync.WaitGroup

	mu      sync.Mutex // guards buckets
	buckets map[int]*preload
}

type preload struct {
	bucket  int
	done    chan struct{} // closed when what follows is final
	runner  runner        // nil: there is none, or it does not work
	source  Source        // of runner
	seconds float64
}

// start begins to load the buckets in their order.
func (p *preloads) start(e *Executor, buckets []int) {
	if e.store == nil || len(buckets) == 0 {
		return
	}
	p.buckets = make(map[int]*preload, len(buckets))
	queue := make(chan *preload, len(buckets))
	for _, b := range buckets {
		if b > 0 && p.buckets[b] == nil {
			l := &preload{bucket: b, done: make(chan struct{})}
			p.buckets[b] = l
			queue <- l
		}
	}
	close(queue)
	for range min(runtime.GOMAXPROCS(0), max(e.threads.count, 1), len(p.buckets)) {
		p.workers.Go(func() {
			for l := range queue {
				began := time.Now()
				l.runner, l.source = e.loadPinned(l.bucket)
				l.seconds = time.Since(began).Seconds()
				close(l.done)
			}
		})
	}
}

// take waits for a bucket's program and hands it over. It returns nil if the bucket was not expected or has none.
func (p *preloads) take(bucket int) *preload {
	p.mu.Lock()
	l := p.buckets[bucket]
	delete(p.buckets, bucket)
	p.mu.Unlock()
	if l != nil {
		<-l.done
	}
	return l
}

// drain waits for the workers and returns the programs that nobody took.
func (p *preloads) drain() (left []runner) {
	p.workers.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.buckets {
		if l.runner != nil {
			left = append(left, l.runner)
		}
	}
	p.buckets = nil
	return left
}
