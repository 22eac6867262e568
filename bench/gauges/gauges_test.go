package gauges

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"rankd/internal/testutil"
)

func TestMain(m *testing.M) { testutil.Main(m) }

func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

const page = `# HELP rankd_frontend_pending_rows Rows.
rankd_frontend_pending_rows{frontend="0"} 3
rankd_frontend_pending_rows{frontend="1"} 4.5
rankd_frontend_pending_rows_other 100
rankd_in_flight_calls 2
`

func TestSeriesOfOneNameAreAddedUp(t *testing.T) {
	address := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(page)) })
	got, err := Read(context.Background(), address, pendingRows, calls, stalls)
	if err != nil || len(got) != 2 || got[pendingRows] != 7.5 || got[calls] != 2 {
		t.Errorf("got %v, %v; want 7.5 rows and 2 calls", got, err)
	}
}

func TestPagesThatAreNoneAreErrors(t *testing.T) {
	for _, h := range []http.HandlerFunc{
		func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) },
		func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(calls + " many\n")) },
	} {
		if _, err := Start(serve(t, h), os.Getpid(), time.Second); err == nil {
			t.Error("got no error")
		}
	}
}

func TestI1WatchHasNoSampleOfAServerThatIsSilent(t *testing.T) {
	asked := make(chan int, 1000)
	n := 0
	address := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		n++ // one request at a time
		if n%2 == 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
		} else {
			_, _ = w.Write([]byte(page))
		}
		asked <- n
	})
	w, err := Start(address, os.Getpid(), time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < 5; i = <-asked {
	}
	list, missed := w.Stop()
	if len(list) < 2 || missed < 1 || Max(list).PendingRows != 7.5 || Max(list).RSS == 0 {
		t.Errorf("got %d samples, %d missed, largest %+v", len(list), missed, Max(list))
	}
}
