package ablation

import (
	"fmt"
	"math"

	"rankd/bench/load"
)

// Name is the file of results in a directory of results.
const Name = "ablations.json"

// File is what the command writes.
type File struct {
	Schema  int      `json:"schema"` // load.Schema
	Tables  []*Table `json:"tables"`
	NotDone []string `json:"not_done"`
}

// Table is settings that are compared.
type Table struct {
	Name     string    `json:"name"`
	What     string    `json:"what"`
	Loads    []Load    `json:"loads"`
	Settings []Setting `json:"settings"`
}

// Load is a closed loop.
type Load struct {
	Callers int `json:"callers"`
	Rows    int `json:"examples_per_request"`
}

// Setting is one server of a table.
type Setting struct {
	Name  string   `json:"name"`
	Flags []string `json:"flags,omitempty"`
	Small bool     `json:"no_huge_pages,omitempty"` // the kernel is asked to give its processes 4 KiB pages only
	Pages string   `json:"pages,omitempty"`         // what the server says that its tables lie on
	Error string   `json:"error,omitempty"`

	MemoryMiB float64        `json:"memory_mib,omitempty"`
	Results   []*load.Result `json:"results"`
}

// Of lists the results at a load.
func (s *Setting) Of(l Load) []*load.Result {
	var list []*load.Result
	for _, r := range s.Results {
		if r.Callers == l.Callers && r.Rows == l.Rows {
			list = append(list, r)
		}
	}
	return list
}

// Tables are those that can be made now, for a server on some processors that has these lookup kernels.
func Tables(cpus int, kernels []string) []*Table {
	busy, small := Load{64, 1}, Load{4, 1}
	all := []Load{busy, {64, 16}, {16, 128}}
	frontends := &Table{Name: "frontends and threads", What: "Frontend processes, and processors that each of them uses at once.", Loads: all}
	for n := 1; n <= max(2, cpus); n *= 2 {
		each := int(math.Ceil(float64(cpus) / float64(n)))
		for _, threads := range []int{each, 2 * each} {
			frontends.Settings = append(frontends.Settings, Setting{
				Name: fmt.Sprintf("%d × %d", n, threads), Flags: []string{fmt.Sprintf("--frontends=%d", n), fmt.Sprintf("--frontend-threads=%d", threads)},
			})
		}
	}
	tables := []*Table{
		{
			Name: "batching", What: "When a batch is closed. With off every request is a batch of its own.", Loads: all,
			Settings: []Setting{
				{Name: "continuous"},
				{Name: "linger, 1 ms", Flags: []string{"--batching=linger"}},
				{Name: "fused, 1 ms", Flags: []string{"--batching=fused"}},
				{Name: "off", Flags: []string{"--batching=off"}},
			},
		},
		{
			Name: "timer", What: "Waiting for more rows against taking what is there, at a low and at a high load.", Loads: []Load{{1, 1}, small, busy},
			Settings: []Setting{
				{Name: "no timer"},
				{Name: "250 µs", Flags: []string{"--batching=linger", "--max-delay=250us"}},
				{Name: "1 ms", Flags: []string{"--batching=linger", "--max-delay=1ms"}},
				{Name: "5 ms", Flags: []string{"--batching=linger", "--max-delay=5ms"}},
			},
		},
		{
			Name: "buckets", What: "Batch sizes that programs are compiled for. A batch is filled up to the next one; on the simulated accelerator that costs nothing.", Loads: all,
			Settings: []Setting{
				{Name: "powers of two"},
				{Name: "1, 16, 256, 4096", Flags: []string{"--buckets=1,16,256,4096"}},
				{Name: "256, 4096", Flags: []string{"--buckets=256,4096"}},
				{Name: "4096", Flags: []string{"--buckets=4096"}},
			},
		},
		frontends,
		{
			Name: "huge pages", What: "The pages that tables and slabs lie on.", Loads: all,
			Settings: []Setting{{Name: "huge pages"}, {Name: "4 KiB pages", Small: true}},
		},
	}
	if len(kernels) > 1 {
		tables = append(tables, lookupKernels(kernels, all))
	}
	return tables
}

// lookupKernels compares the ways to pool table rows; all give the same bits.
func lookupKernels(names []string, loads []Load) *Table {
	t := &Table{Name: "lookup kernel", What: "Vector instructions that pool table rows; generic is portable Go.", Loads: loads}
	for _, name := range names {
		t.Settings = append(t.Settings, Setting{Name: name, Flags: []string{"--lookup-kernel=" + name}})
	}
	return t
}

// NotDone lists what there is no second setting for yet.
func NotDone() []string {
	return []string{
		"Transport: there is one only (grpc-go).",
		"Batching of the lookups with the model against batching of the model only: rankd has no mode for the latter.",
	}
}
