package suite

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"

	"rankd/bench/gauges"
	"rankd/bench/launch"
	"rankd/bench/load"
	"rankd/model"
)

const environmentName = "env.txt"

// environment describes the machine and how it was used; servers says whether they are compared, with the load that was set.
func (s *suite) environment(servers bool) string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-20s %s\n", name, fmt.Sprintf(format, args...))
	}
	line("date", "%s", time.Now().UTC().Format(time.RFC3339))
	line("commit", "%s", commit(s.o.Source))
	line("kernel", "%s", firstLine("/proc/sys/kernel/osrelease"))
	line("cpu", "%s, %s", cpuInfo("model name"), cpuNotes())
	line("processors", "%s online, server on %s, client on %s", firstLine(onlinePath), join(s.o.ServerCPUs), join(s.o.ClientCPUs))
	line("governor", "%s", firstLine("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"))
	line("memory", "%d MiB, %d MiB available", memTotal()>>20, memAvailable()>>20)
	line("huge pages", "transparent %s; shared memory %s; reserved %s", firstLine("/sys/kernel/mm/transparent_hugepage/enabled"),
		firstLine("/sys/kernel/mm/transparent_hugepage/shmem_enabled"), firstLine("/proc/sys/vm/nr_hugepages"))
	line("load average", "%s (before the run)", firstLine("/proc/loadavg"))
	line("go", "%s, GOMAXPROCS %d in the client, GOGC %s", runtime.Version(), runtime.GOMAXPROCS(0), orDefault(os.Getenv("GOGC"), "100"))
	line("python", "%s", s.pythonVersions())
	line("model", "DLRM-DCNv2, tables of at most %d rows, %d MiB", s.o.MaxVocab, tableBytes(s.o.Model())>>20)
	if s.o.Simulated() {
		line("accelerator", "simulated: 350 µs a batch and 1.5 µs a row, 2 batches in flight, for every server")
	} else {
		line("accelerator", "%s", s.o.Platform)
	}
	if s.o.sharedUser() {
		line("workload", "%s: one user and many candidates a request", s.o.Workload)
	}
	if servers {
		line("load", "%d connections, %v after %v of warm-up, repeats: %d, ids %s", connections, s.o.Duration, s.o.Warmup, s.o.Repeats, s.o.IDs)
	} else {
		line("load", "what each trial has, ids %s", s.o.IDs)
	}
	return b.String()
}

func orDefault(text, instead string) string {
	if text == "" {
		return instead
	}
	return text
}

// firstLine is that of a file, or "unknown".
func firstLine(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return "unknown"
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	return orDefault(line, "unknown")
}

const onlinePath = "/sys/devices/system/cpu/online"

// cpuInfo is a field of the first processor.
func cpuInfo(field string) string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return "unknown"
	}
	defer f.Close()
	for in := bufio.NewScanner(f); in.Scan(); {
		if name, value, ok := strings.Cut(in.Text(), ":"); ok && strings.TrimSpace(name) == field {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

// cpuNotes are what matters to lookups.
func cpuNotes() string {
	flags := " " + cpuInfo("flags") + " "
	var notes []string
	for _, name := range []string{"avx2", "avx512f", "hypervisor"} {
		if strings.Contains(flags, " "+name+" ") {
			notes = append(notes, name)
		}
	}
	if len(notes) == 0 {
		return "no AVX2"
	}
	return strings.Join(notes, " ")
}

func memTotal() int64 {
	fields := strings.Fields(firstLine("/proc/meminfo"))
	if len(fields) < 2 {
		return 0
	}
	n, _ := strconv.ParseInt(fields[1], 10, 64) // the kernel's own number
	return n << 10
}

// machineName is what results of one machine have in common.
func machineName() string {
	return cpuInfo("model name") + ", " + firstLine(onlinePath) + ", " + firstLine("/proc/sys/kernel/osrelease")
}

// commit is the one that is checked out, and whether files differ from it.
func commit(dir string) string {
	hash, err := exec.Command("git", "-C", dir, "rev-parse", "HEAD").Output()
	if err != nil {
		return "unknown"
	}
	changed, _ := exec.Command("git", "-C", dir, "status", "--porcelain", "--untracked-files=no").Output() // no answer: no note
	note := ""
	if len(changed) > 0 {
		note = " with changes"
	}
	return strings.TrimSpace(string(hash)) + note
}

// pythonVersions asks the interpreter of the Python servers.
func (s *suite) pythonVersions() string {
	const script = `import platform
from importlib.metadata import version, PackageNotFoundError
out = [platform.python_version()]
for name in ("numpy", "grpcio", "protobuf", "uvloop", "jax", "jaxlib"):
    try:
        out.append(name + " " + version(name))
    except PackageNotFoundError:
        pass
print(", ".join(out))`
	out, err := exec.Command(s.python, "-c", script).Output()
	if err != nil {
		return "none"
	}
	return strings.TrimSpace(string(out))
}

// sizesOf reads the sizes that rankd says of itself; nil: another server.
func sizesOf(server *launch.Server, v *variant) *load.Sizes {
	if server.HTTP == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	values, err := gauges.Read(ctx, server.HTTP, "rankd_table_bytes", "rankd_region_bytes")
	if err != nil {
		return nil
	}
	return &load.Sizes{Tables: int64(values["rankd_table_bytes"]), Region: int64(values["rankd_region_bytes"]), Frontends: v.processes}
}

// tableBytes is the size of a model's tables; 0: not known.
func tableBytes(dir string) int64 {
	b, err := model.Open(dir)
	if err != nil {
		return 0
	}
	return b.Manifest.TableBytes()
}
