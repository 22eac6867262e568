package testutil

import (
	"net"
	"testing"
	"time"
)

// Eventually polls done until it holds. It fails the test when that takes longer than limit; what says what was awaited.
func Eventually(t testing.TB, limit time.Duration, what string, done func() bool) {
	t.Helper()
	deadline := time.Now().Add(limit)
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for !done() {
		if time.Now().After(deadline) {
			t.Fatalf("wait for %s: not so after %v", what, limit)
		}
		<-poll.C
	}
}

// Address gives a loopback TCP address that nothing listened on a moment ago.
func Address(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("find a free port: %v", err)
	}
	defer l.Close()
	return l.Addr().String()
}
