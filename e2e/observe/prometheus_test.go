package observe

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"rankd/bench/launch"
	"rankd/e2e/loaded"
	"rankd/internal/testutil"
)

func TestMain(m *testing.M) { testutil.Main(m) }

const limit = time.Minute

func tool(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		loaded.Missing(t, "RANKD_REQUIRE_PROMETHEUS", "%s is missing: apt-get install prometheus", name)
	}
	return path
}

func get(t *testing.T, address string, into any) string {
	t.Helper()
	r, err := http.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	if into != nil {
		if err := json.Unmarshal(text, into); err != nil {
			t.Fatalf("%s: %v\n%.300s", address, err, text)
		}
	}
	return string(text)
}

// prometheus scrapes the server every second and loads the rules.
func prometheus(t *testing.T, path string, s *launch.Server) (address string) {
	t.Helper()
	dir := t.TempDir()
	rules, err := filepath.Abs("../../deploy/prometheus/rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "prometheus.yml")
	text := fmt.Sprintf("global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [%q]\nscrape_configs:\n  - job_name: rankd\n    static_configs: [{targets: [%q]}]\n", rules, s.HTTP)
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address = l.Addr().String()
	l.Close()
	var out bytes.Buffer
	cmd := exec.Command(path, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address, "--log.level=warn")
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("prometheus: %v\n%s", err, out.String())
		}
		http.DefaultClient.CloseIdleConnections()
	})
	testutil.Eventually(t, limit, "prometheus to be ready", func() bool {
		r, err := http.Get("http://" + address + "/-/ready")
		if err != nil {
			return false
		}
		r.Body.Close()
		return r.StatusCode == http.StatusOK
	})
	return address
}

// answer is what Prometheus says to a query.
type answer struct {
	Status string `json:"status"`
	Error  string `json:"error"`
	Data   struct {
		Result []struct {
			Value [2]any `json:"value"`
		} `json:"result"`
	} `json:"data"`
}

func ask(t *testing.T, address, query string) answer {
	t.Helper()
	var a answer
	get(t, "http://"+address+"/api/v1/query?query="+url.QueryEscape(query), &a)
	return a
}

// queries are those of the dashboard, by the panel that has them.
func queries(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("../../deploy/grafana/rankd.json")
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Panels []struct {
			Title   string
			Targets []struct{ RefID, Expr string }
		}
	}
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	list := map[string]string{}
	fill := strings.NewReplacer("$__rate_interval", "10s", "$instance", ".*")
	for _, p := range d.Panels {
		for _, x := range p.Targets {
			list[p.Title+" "+x.RefID] = fill.Replace(x.Expr)
		}
	}
	if len(list) < 20 {
		t.Fatalf("got %d queries, want those of a dashboard", len(list))
	}
	return list
}

func TestPrometheusScrapesTheServer(t *testing.T) {
	path, promtool := tool(t, "prometheus"), tool(t, "promtool")
	s, _ := loaded.Start(t, "RANKD_REQUIRE_PROMETHEUS")
	address := prometheus(t, path, s)

	check := exec.Command(promtool, "check", "metrics")
	check.Stdin = strings.NewReader(get(t, "http://"+s.HTTP+"/metrics", nil))
	if out, err := check.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
	for _, args := range [][]string{{"check", "rules", "rules.yaml"}, {"test", "rules", "rules_test.yaml"}} {
		cmd := exec.Command(promtool, args...)
		cmd.Dir = "../../deploy/prometheus"
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}

	testutil.Eventually(t, limit, "a rate of requests", func() bool {
		return len(ask(t, address, `sum(rate(rankd_requests_total{outcome="ok"}[10s])) > 50`).Data.Result) == 1
	})
	for name, q := range queries(t) {
		var a answer
		testutil.Eventually(t, limit, "I1: an answer to "+name+": "+q, func() bool {
			if a = ask(t, address, q); a.Status != "success" {
				t.Fatalf("%s: %s: %s", name, q, a.Error)
			}
			return len(a.Data.Result) > 0
		})
	}
	for _, record := range []string{"rankd:requests:rate1m", "rankd:stage_seconds:p99_1m", "rankd:batch_rows:mean1m"} {
		testutil.Eventually(t, limit, record, func() bool { return len(ask(t, address, record).Data.Result) > 0 })
	}
	if firing := ask(t, address, `ALERTS{alertstate="firing"}`).Data.Result; len(firing) > 0 {
		t.Errorf("a server that is well: got alerts %v", firing)
	}
	if up := ask(t, address, `min_over_time(up{job="rankd"}[30s]) == 1`).Data.Result; len(up) != 1 {
		t.Error("some scrape has failed")
	}
}
