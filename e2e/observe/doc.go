// Package observe scrapes a real server with a real Prometheus, and asks it everything that the dashboard and the rules ask.
//
// # Nouns
//
//   - dashboard: deploy/grafana/rankd.json. Its queries are taken out of the file, with Grafana's variables filled in.
//   - rules: deploy/prometheus/rules.yaml, which Prometheus loads.
//
// # Invariants
//
//	I1  Every query of the dashboard has an answer while the server is under load.
//
// # Layout
//
// prometheus_test.go is all.
//
// # Failure
//
// Without Prometheus and promtool the test is skipped with the command that installs them; where RANKD_REQUIRE_PROMETHEUS is set ("make
// observe") it fails.
package observe
