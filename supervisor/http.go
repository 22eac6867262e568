package supervisor

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// httpServer serves metrics, health and the status page.
type httpServer struct {
	listener net.Listener
	server   *http.Server
	done     chan struct{}
}

// serveHTTP starts to serve on --http. It returns nil if there is to be none.
func serveHTTP(s *server) (*httpServer, error) {
	if s.cfg.HTTP == "" {
		return nil, nil
	}
	listener, err := net.Listen("tcp", s.cfg.HTTP)
	if err != nil {
		return nil, fmt.Errorf("listen on --http %s: stop what holds it or choose another: %w", s.cfg.HTTP, err)
	}
	h := &httpServer{listener: listener, done: make(chan struct{})}
	h.server = &http.Server{
		Handler: handler(s), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second,
		WriteTimeout: 30 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
	}
	go func() {
		defer close(h.done)
		_ = h.server.Serve(listener) // ends with close
	}()
	return h, nil
}

func (h *httpServer) address() string {
	if h == nil {
		return ""
	}
	return h.listener.Addr().String()
}

// close lets requests end for a short time, then cuts them.
func (h *httpServer) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if h.server.Shutdown(ctx) != nil {
		h.server.Close()
	}
	<-h.done
}

func handler(s *server) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry(s), promhttp.HandlerOpts{MaxRequestsInFlight: 8}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		plain(w, http.StatusOK, "ok")
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if st := s.status.Load(); !st.Ready {
			plain(w, http.StatusServiceUnavailable, st.Reason)
			return
		}
		plain(w, http.StatusOK, "ready")
	})
	mux.HandleFunc("GET /statusz", func(w http.ResponseWriter, r *http.Request) {
		st := s.status.Load()
		switch format := formatOf(r); format {
		case "html":
			writePage(w, newView(st, s.lately(), time.Now()), r.URL.Query().Get("part") == "main")
		case "text":
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			_ = st.WriteText(w, s.lately(), time.Now()) // the peer may be gone
		case "history":
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(s.lately())
		case "json":
			w.Header().Set("Content-Type", "application/json")
			encoder := json.NewEncoder(w)
			encoder.SetIndent("", "  ")
			_ = encoder.Encode(st) // the peer may be gone
		default:
			plain(w, http.StatusBadRequest, fmt.Sprintf("unknown format %q, want html, text, json or history", format))
		}
	})
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/statusz", http.StatusFound)
	})
	return mux
}

// formatOf is the form in which the status is wanted: what the query says, else HTML for browsers and text for others, such as curl.
func formatOf(r *http.Request) string {
	if f := r.URL.Query().Get("format"); f != "" {
		return f
	}
	if strings.Contains(r.Header.Get("Accept"), "text/html") {
		return "html"
	}
	return "text"
}

func plain(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	fmt.Fprintln(w, text)
}
