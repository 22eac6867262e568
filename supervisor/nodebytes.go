package supervisor

import (
	"maps"
	"slices"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

// nodeBytes is a gauge for each NUMA node, of memory that may lie on several.
type nodeBytes struct {
	desc *prometheus.Desc
	read func() []map[int]int64
}

func (n *nodeBytes) Describe(to chan<- *prometheus.Desc) { to <- n.desc }

func (n *nodeBytes) Collect(to chan<- prometheus.Metric) {
	sum := map[int]int64{}
	for _, nodes := range n.read() {
		for node, bytes := range nodes {
			sum[node] += bytes
		}
	}
	for _, node := range slices.Sorted(maps.Keys(sum)) {
		to <- prometheus.MustNewConstMetric(n.desc, prometheus.GaugeValue, float64(sum[node]), strconv.Itoa(node))
	}
}
