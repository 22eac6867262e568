package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"go.uber.org/goleak"

	"rankd/internal/testutil"
)

func TestMain(m *testing.M) {
	startSpawner()
	// The spawner's thread has to outlive every server, so it is there for good.
	testutil.Main(m, goleak.IgnoreCurrent())
}

// spawner runs functions on one thread that lives as long as the process: the kernel ends a server when the thread that
// started it ends.
var spawner = make(chan func())

func startSpawner() {
	go func() {
		runtime.LockOSThread() // never unlocked
		for do := range spawner {
			do()
		}
	}()
}

// onSpawner runs do on the spawner's thread and returns when it is done.
func onSpawner(do func() error) error {
	done := make(chan error)
	spawner <- func() { done <- do() }
	return <-done
}

// size is a number from the environment, or what CI runs with.
func size(t testing.TB, name string, usual int) int {
	t.Helper()
	text, ok := os.LookupEnv(name)
	if !ok {
		return usual
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("read %s: got %q, want a whole number of at least 1", name, text)
	}
	return n
}

// seedOf is the seed of a test's random choices. A test that fails prints it.
func seedOf(t testing.TB) uint64 {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if text, ok := os.LookupEnv("RANKD_E2E_SEED"); ok {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("read RANKD_E2E_SEED: %v", err)
		}
	}
	t.Logf("seed %d (RANKD_E2E_SEED=%d repeats its choices)", seed, seed)
	return seed
}

// random is a source of its own for every user of a seed.
func random(seed uint64, user string) *rand.Rand {
	h := uint64(14695981039346656037)
	for i := range len(user) {
		h = (h ^ uint64(user[i])) * 1099511628211
	}
	return rand.New(rand.NewPCG(seed, h))
}

// mib writes bytes for people.
func mib(bytes int64) string { return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20)) }
