package predict

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"rankd/client"
	"rankd/frontend/wire"
	"rankd/internal/config"
	"rankd/model"
)

// Config is what a person may set about a prediction.
type Config struct {
	Target       string        `flag:"target" unit:"host:port" help:"gRPC address of the server"`
	Model        string        `flag:"model" unit:"directory" help:"directory of the model bundle; it gives the model's name and, without a file, the golden requests"`
	ModelName    string        `flag:"model-name" help:"name of the model, if there is no bundle at hand"`
	ModelVersion string        `flag:"model-version" help:"version that must score; empty: the one being served"`
	Format       string        `flag:"format" oneof:"auto|npz|jsonl|criteo|safetensors" help:"format of the file; auto: by its name"`
	Batch        int           `flag:"batch" unit:"rows" min:"1" help:"rows in a request"`
	Connections  int           `flag:"connections" unit:"connections" min:"1" max:"1024" help:"connections to the server"`
	Concurrency  int           `flag:"concurrency" unit:"requests" min:"1" max:"65536" help:"requests that are open at once"`
	Timeout      time.Duration `flag:"timeout" unit:"duration" min:"0s" help:"deadline of a request; 0: none"`
	Retries      int           `flag:"retries" unit:"attempts" min:"0" help:"further attempts after a refusal that asks for one, or on a new connection when one breaks"`
	Tolerance    float64       `flag:"tolerance" help:"largest deviation from reference results, relative to values above 1; negative: report only"`
	Quiet        bool          `flag:"quiet" help:"print no scores"`
}

// Default is the configuration without flags.
func Default() Config {
	return Config{
		Target: "127.0.0.1:8500", Format: "auto", Batch: 128, Connections: 2, Concurrency: 8, Timeout: 30 * time.Second, Retries: 5,
		Tolerance: 1e-3,
	}
}

// ErrDeviation says that results differ from the reference by more than the tolerance.
var ErrDeviation = errors.New("results deviate from the reference")

// Run scores the examples of file, or the golden requests of cfg.Model if file is empty. Scores go to out, one line a row:
// the values of all outputs in the order of their names, separated by spaces. The summary goes to report.
func Run(ctx context.Context, cfg Config, file string, out, report io.Writer) error {
	if err := config.Check(&cfg); err != nil {
		return err
	}
	c, err := client.Dial(cfg.Target, client.Options{Connections: cfg.Connections, Timeout: cfg.Timeout, Retries: cfg.Retries})
	if err != nil {
		return fmt.Errorf("check --target: %w", err)
	}
	defer c.Close()
	m, source, err := open(ctx, &cfg, file, c)
	if err != nil {
		return hint(err)
	}
	defer source.Close()
	simulated, err := isSimulated(ctx, c, m)
	if err != nil {
		return hint(err)
	}
	r := &run{cfg: &cfg, client: c, model: m, simulated: simulated, out: bufio.NewWriter(out), deltas: map[string]float64{}}
	began := time.Now()
	err = errors.Join(r.score(ctx, source), r.out.Flush())
	if r.rows > 0 {
		r.summarize(report, time.Since(began))
	}
	examples := cmp.Or(file, "golden requests")
	switch {
	case err != nil:
		return hint(err)
	case r.rows == 0:
		return fmt.Errorf("read %s: got no examples, want at least one", examples)
	case cfg.Tolerance >= 0 && r.worst > cfg.Tolerance:
		return fmt.Errorf("compare with %s: deviation %.3g, want at most %.3g (--tolerance): %w", examples, r.worst, cfg.Tolerance, ErrDeviation)
	}
	return nil
}

// isSimulated asks whether the server's device is simulated. A server that has no answer has scores of its own.
func isSimulated(ctx context.Context, c *client.Client, m client.Model) (bool, error) {
	md, err := c.Metadata(ctx, m)
	if status.Code(err) == codes.Unimplemented {
		return false, nil
	}
	return md.GetPlatform() == wire.PlatformSimulated, err
}

// hint adds to an error what the person can do about it.
func hint(err error) error {
	if errors.Is(err, client.ErrNoServer) {
		return fmt.Errorf("%w; start one with rankd serve, or name it with --target", err)
	}
	return err
}

// open finds out what the model takes and opens the file.
func open(ctx context.Context, cfg *Config, file string, c *client.Client) (client.Model, Source, error) {
	m := client.Model{Name: cfg.ModelName, Version: cfg.ModelVersion}
	var schema *Schema
	if cfg.Model != "" {
		bundle, err := model.Open(cfg.Model)
		if err != nil {
			return m, nil, err
		}
		m.Name = cmp.Or(m.Name, bundle.Manifest.Name)
		schema = SchemaOf(bundle.Manifest)
		if file == "" {
			file = bundle.Path(model.GoldenFile)
		}
	}
	switch {
	case m.Name == "":
		return m, nil, errors.New("choose model: got neither --model nor --model-name, want the bundle's directory or the model's name")
	case file == "":
		return m, nil, errors.New("choose examples: got no file, want one, or --model with golden requests")
	}
	format, err := formatOf(cfg.Format, file)
	if err != nil {
		return m, nil, err
	}
	if schema == nil && (format == "jsonl" || format == "criteo") {
		md, err := c.Metadata(ctx, m)
		if err != nil {
			return m, nil, err
		}
		if schema, err = SchemaFromServer(md); err != nil {
			return m, nil, err
		}
	}
	s, err := openFormat(format, file, schema)
	return m, s, err
}

func formatOf(format, file string) (string, error) {
	if format != "auto" {
		return format, nil
	}
	switch ext := strings.ToLower(filepath.Ext(file)); ext {
	case ".npz", ".safetensors", ".jsonl":
		return ext[1:], nil
	case ".ndjson", ".json":
		return "jsonl", nil
	case ".tsv", ".txt":
		return "criteo", nil
	}
	return "", fmt.Errorf("choose format of %s: its name ends in none of .npz, .jsonl, .tsv, .safetensors; say --format", file)
}

func openFormat(format, file string, s *Schema) (Source, error) {
	switch format {
	case "npz":
		return OpenNPZ(file)
	case "jsonl":
		return OpenJSONLines(file, s)
	case "criteo":
		return OpenCriteo(file, s)
	default:
		return OpenTensors(file)
	}
}

// run is one prediction in progress; its fields below model belong to the goroutine that prints.
type run struct {
	cfg    *Config
	client *client.Client
	model  client.Model

	simulated bool // the server's scores are not the model's

	out       *bufio.Writer
	rows      int64
	requests  int
	latencies []time.Duration
	deltas    map[string]float64 // by output: largest absolute difference
	worst     float64            // largest difference relative to max(1, |want|)
}

// job is a batch on its way; result is sent once.
type job struct {
	batch  *Batch
	result chan result
}

type result struct {
	outputs map[string]client.Output
	took    time.Duration
	err     error
}

// score reads, sends and prints. Jobs wait in a channel in the order of the file, so results are printed in that order
// whatever order they come in; its capacity bounds what is held.
func (r *run) score(ctx context.Context, source Source) error {
	ctx, cancel := context.WithCancel(ctx)
	var readErr error
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	ordered := make(chan *job, r.cfg.Concurrency)
	work := make(chan *job)
	wg.Go(func() {
		defer close(ordered)
		defer close(work)
		readErr = r.read(ctx, source, ordered, work)
	})
	for range r.cfg.Concurrency {
		wg.Go(func() {
			for j := range work {
				began := time.Now()
				outputs, err := r.client.Score(ctx, r.model, j.batch.Tensors)
				j.result <- result{outputs, time.Since(began), err}
			}
		})
	}
	for j := range ordered {
		res := <-j.result
		if res.err != nil {
			return scoreError(j.batch, res.err)
		}
		if err := r.print(j.batch, res); err != nil {
			return err
		}
	}
	return readErr // written before ordered was closed
}

func (r *run) read(ctx context.Context, source Source, ordered, work chan<- *job) error {
	for {
		b, err := source.Next(r.cfg.Batch)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		j := &job{b, make(chan result, 1)}
		select {
		case ordered <- j:
		case <-ctx.Done():
			return ctx.Err()
		}
		select {
		case work <- j:
		case <-ctx.Done():
			j.result <- result{err: ctx.Err()} // the printer may be waiting for it
			return ctx.Err()
		}
	}
}

// scoreError names the rows of a request that failed, and the one that a refusal is about, by their numbers in the file.
func scoreError(b *Batch, err error) error {
	rows := fmt.Sprintf("rows %d to %d", b.First, b.First+int64(b.Rows)-1)
	row, none := strconv.Atoi(client.Detail(err, "row"))
	if none != nil || row < 0 || row >= b.Rows {
		return fmt.Errorf("score %s: %w", rows, err)
	}
	place := fmt.Sprintf("row %d", b.First+int64(row))
	if row < len(b.Lines) {
		place += fmt.Sprintf(", line %d,", b.Lines[row])
	}
	return fmt.Errorf("score %s: %s is refused, as row %d of its request: %w", rows, place, row, err)
}

func (r *run) print(b *Batch, res result) error {
	names := make([]string, 0, len(res.outputs))
	for name, o := range res.outputs {
		if len(o.Shape) == 0 || o.Shape[0] != int64(b.Rows) {
			return fmt.Errorf("read output %q of rows from %d: got shape %v, want %d rows", name, b.First, o.Shape, b.Rows)
		}
		names = append(names, name)
	}
	slices.Sort(names)
	r.rows += int64(b.Rows)
	r.requests++
	r.latencies = append(r.latencies, res.took)
	for name, want := range b.Expect {
		if r.simulated {
			break
		}
		got, ok := res.outputs[name]
		if !ok || len(got.Values) != len(want) {
			return fmt.Errorf("compare output %q: got %d values, want %d", name, len(got.Values), len(want))
		}
		r.compare(name, got.Values, want)
	}
	if r.cfg.Quiet {
		return nil
	}
	for row := range b.Rows {
		line := r.out.AvailableBuffer()
		for i, name := range names {
			width := len(res.outputs[name].Values) / b.Rows
			for k := range width {
				if i+k > 0 {
					line = append(line, ' ')
				}
				line = strconv.AppendFloat(line, float64(res.outputs[name].Values[row*width+k]), 'g', -1, 32)
			}
		}
		if _, err := r.out.Write(append(line, '\n')); err != nil {
			return fmt.Errorf("print scores: %w", err)
		}
	}
	return nil
}

func (r *run) compare(name string, got, want []float32) {
	for i := range want {
		d := math.Abs(float64(got[i]) - float64(want[i]))
		if got[i] != got[i] && want[i] != want[i] { // NaN as expected
			continue
		}
		if math.IsNaN(d) {
			d = math.Inf(1)
		}
		r.deltas[name] = max(r.deltas[name], d)
		r.worst = max(r.worst, d/max(1, math.Abs(float64(want[i]))))
	}
}

// summarize says what was done, for people.
func (r *run) summarize(w io.Writer, took time.Duration) {
	fmt.Fprintf(w, "rows %d  requests %d  seconds %.3f  rows/s %.0f  p50 %s  p99 %s\n", r.rows, r.requests, took.Seconds(),
		float64(r.rows)/max(took.Seconds(), 1e-9), percentile(r.latencies, 50), percentile(r.latencies, 99))
	if r.simulated {
		fmt.Fprintln(w, "the server runs a simulated accelerator: scores are not the model's")
	}
	names := make([]string, 0, len(r.deltas))
	for name := range r.deltas {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(w, "output %q  max |delta| %.3g against the reference\n", name, r.deltas[name])
	}
}

// percentile is the nearest-rank percentile p of the latencies, which it sorts.
func percentile(all []time.Duration, p int) time.Duration {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	rank := (p*len(all) + 99) / 100
	return all[max(rank, 1)-1].Round(time.Microsecond)
}
