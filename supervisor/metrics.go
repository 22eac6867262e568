package supervisor

import (
	"runtime"
	"runtime/debug"
	"strconv"

	"rankd/internal/stats"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// registry gathers the counter page, this process and what the loop knows.
func registry(s *server) *prometheus.Registry {
	r := prometheus.NewRegistry()
	gauge := func(name, help string, read func(*Status) float64) {
		opts := prometheus.GaugeOpts{Name: "rankd_" + name, Help: help}
		r.MustRegister(prometheus.NewGaugeFunc(opts, func() float64 { return read(s.status.Load()) }))
	}
	r.MustRegister(stats.NewCollector(s.page, s.cfg.Frontends), collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	gauge("ready", "1 while requests are served.", func(st *Status) float64 {
		if st.Ready {
			return 1
		}
		return 0
	})
	gauge("processes_ready", "Frontends and device owner that are ready.", func(st *Status) (n float64) {
		for _, p := range st.Processes {
			if p.State == "ready" {
				n++
			}
		}
		return n
	})
	gauge("table_bytes", "Bytes of the table segment, or of all its copies; 0 while it is loaded.", func(st *Status) float64 {
		all := bytesOf(st.Tables)
		for i := range st.Copies {
			all += bytesOf(&st.Copies[i])
		}
		return all
	})
	byNode := func(name, help string, memory func(*Status) []map[int]int64) {
		r.MustRegister(&nodeBytes{prometheus.NewDesc("rankd_"+name, help, []string{"node"}, nil), func() []map[int]int64 { return memory(s.status.Load()) }})
	}
	byNode("table_node_bytes", "Bytes of the tables on each NUMA node when they were loaded, as the kernel has them; none where it does not tell.",
		func(st *Status) (list []map[int]int64) {
			for _, m := range st.Copies {
				list = append(list, m.Nodes)
			}
			if st.Tables != nil {
				list = append(list, st.Tables.Nodes)
			}
			return list
		})
	gauge("region_bytes", "Bytes of the ring region.", func(st *Status) float64 { return bytesOf(st.Region) })
	gauge("table_huge_bytes", "Bytes of the table segment that lie on huge pages, as the kernel has them.", func(st *Status) float64 { return hugeOf(st.Tables) })
	gauge("region_huge_bytes", "Bytes of the ring region that lie on huge pages, as the kernel has them.", func(st *Status) float64 { return hugeOf(st.Region) })
	perProcess := func(name, help string, value func(*ProcessStatus) float64) {
		r.MustRegister(&processValues{prometheus.NewDesc("rankd_"+name, help, []string{"role", "index"}, nil), value, s.status.Load})
	}
	perProcess("process_incarnation", "The how-manieth process of its place runs: it grows by one with each start.", func(p *ProcessStatus) float64 { return float64(p.Incarnation) })
	perProcess("process_cpu_cores", "Processors that a process was busy on in the last second.", func(p *ProcessStatus) float64 { return p.Cores })
	perProcess("process_anon_bytes", "Memory of a process's own, without what it shares.", func(p *ProcessStatus) float64 { return float64(p.Anon) })
	labelled := func(name, help string, labels prometheus.Labels) {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Name: "rankd_" + name, Help: help, ConstLabels: labels})
		g.Set(1)
		r.MustRegister(g)
	}
	labelled("build_info", "1; the labels say what this server was made of, and what it serves.", buildLabels(s.deps.Model))
	return r
}

// buildLabels name the build and the model.
func buildLabels(m Model) prometheus.Labels {
	labels := prometheus.Labels{"version": "unknown", "revision": "unknown", "go": runtime.Version(), "model": m.Name, "model_version": m.Version}
	if info, ok := debug.ReadBuildInfo(); ok {
		labels["version"] = info.Main.Version
		for _, x := range info.Settings {
			if x.Key == "vcs.revision" {
				labels["revision"] = x.Value
			}
		}
	}
	return labels
}

// processValues is a figure of every place, whether there is a process in it or not: the series stay.
type processValues struct {
	desc   *prometheus.Desc
	value  func(*ProcessStatus) float64
	status func() *Status
}

// Describe implements prometheus.Collector.
func (c *processValues) Describe(ch chan<- *prometheus.Desc) { ch <- c.desc }

// Collect implements prometheus.Collector.
func (c *processValues) Collect(ch chan<- prometheus.Metric) {
	for _, p := range c.status().Processes {
		ch <- prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, c.value(&p), p.Role, strconv.Itoa(p.Index))
	}
}

func hugeOf(m *Memory) float64 {
	if m == nil {
		return 0
	}
	return float64(m.HugeBytes)
}

func bytesOf(m *Memory) float64 {
	if m == nil {
		return 0
	}
	return float64(m.Bytes)
}
