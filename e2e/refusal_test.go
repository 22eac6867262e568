package e2e

import (
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// refusal gives the reason that a status carries for programs.
func refusal(st *status.Status) (reason string, info *errdetails.ErrorInfo) {
	for _, d := range st.Details() {
		if e, ok := d.(*errdetails.ErrorInfo); ok && e.Domain == "rankd" {
			return e.Reason, e
		}
	}
	return "", nil
}

// wantRefusal checks code, reason and the words that the message must have.
func wantRefusal(t testing.TB, err error, code codes.Code, reason string, words ...string) {
	t.Helper()
	st := status.Convert(err)
	got, _ := refusal(st)
	if st.Code() != code || got != reason {
		t.Errorf("got %v %q: %s, want %v %q", st.Code(), got, st.Message(), code, reason)
		return
	}
	for _, w := range words {
		if !strings.Contains(st.Message(), w) {
			t.Errorf("got message %q, want %q in it", st.Message(), w)
		}
	}
}
