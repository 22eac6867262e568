package ahead

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"rankd/deviceowner/pjrt"
	"rankd/deviceowner/pjrt/execache"
	"rankd/model"
)

// Options say what to compile.
type Options struct {
	Bundle   *model.Bundle
	Settings Settings
	// Fresh drops what the bundle has for other targets and batch sizes too.
	Fresh bool
	// Command is the child's program and arguments for settings that may name the plugin more exactly than Settings does. It
	// calls Child with descriptor EventFD.
	Command func(s Settings) []string
	// Progress is called from one goroutine with what happens. nil: nobody is told.
	Progress func(Step)
}

// Step is what has happened.
type Step struct {
	Target  string        // not empty: this is compiled for
	Bucket  int           // else this batch size; 0: the plugin itself is being opened
	Elapsed time.Duration // has been compiled for so long
	Bytes   int           // and is ready, with so many bytes; 0: not yet
}

// tellEvery is the time between two Steps of a batch size that takes long.
const tellEvery = 10 * time.Second

// Report is what a run has stored.
type Report struct {
	Target string
	Items  []execache.Item
	Kept   execache.Kept // what the bundle had before and still has
}

// Run compiles the programs of a bundle and stores them there (I1). Its error says what the plugin said, or how its process ended.
func Run(ctx context.Context, o Options) (_ *Report, err error) {
	s := o.Settings
	if err := s.Validate(); err != nil {
		return nil, err
	}
	if s.Plugin, err = pjrt.ResolvePlugin(s.Plugin, s.Platform); err != nil {
		return nil, err
	}
	filler, err := execache.Fill(o.Bundle.Path(model.ExecutablesDir), o.Fresh)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, filler.Close()) }()
	if o.Progress == nil {
		o.Progress = func(Step) {}
	}
	report := &Report{}
	r := &run{options: &o, began: time.Now()}
	err = r.child(ctx, s, func(ev event) error {
		if ev.Target != "" {
			report.Target = ev.Target
		}
		if ev.Bucket == 0 {
			return nil
		}
		x, err := filler.Add(o.Bundle.Manifest.Name, filepath.Base(s.Plugin), s.Topology, ev.Key, ev.Image)
		report.Items = append(report.Items, x)
		return err
	})
	if err != nil {
		return nil, err
	}
	report.Kept, err = filler.Commit(func(k execache.Key) bool { return checkProgram(o.Bundle, k) == nil })
	return report, err
}

// run is one child.
type run struct {
	options *Options
	opened  bool // the plugin
	bucket  int  // being compiled
	began   time.Time
}

// child starts the child and hands on its events until it has ended.
func (r *run) child(ctx context.Context, s Settings, take func(event) error) error {
	alive, stop := context.WithCancel(ctx)
	defer stop()
	from, to, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("start compiler: %w", err)
	}
	defer from.Close()
	argv := r.options.Command(s)
	said := &tail{}
	cmd := exec.CommandContext(alive, argv[0], argv[1:]...)
	cmd.ExtraFiles, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = []*os.File{to}, said, said, time.Second
	cmd.Env = os.Environ()
	if s.Topology != "" {
		cmd.Env = append(cmd.Env, unset(pjrt.QuietEnvironment(s.Platform))...)
	}
	err = cmd.Start()
	_ = to.Close() // the child has its own
	if err != nil {
		return fmt.Errorf("start compiler: %w", err)
	}
	ended, err := r.listen(from, take)
	if ended || err != nil {
		stop() // all that is left of it is the end of the process, which a plugin can make long
	}
	waited := cmd.Wait()
	switch {
	case err != nil:
		return err
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", r.at(), ctx.Err())
	case !ended:
		return fmt.Errorf("%s: the plugin's process ended (%v)%s", r.at(), waited, said.words())
	}
	return nil
}

// listen takes events until the last one, and then or at the end of the child says whether that one came.
func (r *run) listen(from io.Reader, take func(event) error) (ended bool, err error) {
	events := make(chan event)
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		defer close(events)
		for d := gob.NewDecoder(from); ; {
			var ev event
			if d.Decode(&ev) != nil {
				return // the child's end tells more
			}
			select {
			case events <- ev:
			case <-stop:
				return
			}
		}
	}()
	tick := time.NewTicker(tellEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if r.bucket != 0 || !r.opened {
				r.options.Progress(Step{Bucket: r.bucket, Elapsed: time.Since(r.began)})
			}
		case ev, open := <-events:
			switch {
			case !open:
				return false, nil
			case ev.Done:
				return true, nil
			case ev.Failed != "":
				return true, errors.New(ev.Failed)
			}
			if err := take(ev); err != nil {
				return true, err
			}
			r.note(ev)
			tick.Reset(tellEvery)
		}
	}
}

func (r *run) note(ev event) {
	switch {
	case ev.Target != "":
		r.opened = true
		r.options.Progress(Step{Target: ev.Target})
	case ev.Begun != 0:
		r.bucket, r.began = ev.Begun, time.Now()
	case ev.Bucket != 0:
		r.bucket = 0
		r.options.Progress(Step{Bucket: ev.Bucket, Elapsed: time.Duration(ev.Seconds * float64(time.Second)), Bytes: len(ev.Image)})
	}
}

// at says what the child was doing.
func (r *run) at() string {
	if r.bucket == 0 {
		return "open plugin"
	}
	return fmt.Sprintf("compile bucket %d", r.bucket)
}

// unset leaves out what the environment says already.
func unset(variables []string) (missing []string) {
	for _, v := range variables {
		name, _, _ := strings.Cut(v, "=")
		if _, set := os.LookupEnv(name); !set {
			missing = append(missing, v)
		}
	}
	return missing
}

// tail keeps the end of what is written to it.
type tail struct{ text []byte }

const tailBytes = 4 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.text = append(t.text, p...)
	if extra := len(t.text) - tailBytes; extra > 0 {
		t.text = t.text[extra:]
	}
	return len(p), nil
}

// words ends a message with what was printed.
func (t *tail) words() string {
	text := strings.TrimSpace(strings.ToValidUTF8(string(t.text), "?"))
	if text == "" {
		return ""
	}
	return "; it printed:\n" + text
}
