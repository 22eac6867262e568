package ablation

import (
	"context"
	"errors"
	"strings"
	"testing"

	"rankd/bench/launch"
	"rankd/bench/load"
	"rankd/internal/testutil"
)

func TestMain(m *testing.M) { testutil.Main(m) }

func TestI1SettingsTakeTurns(t *testing.T) {
	var order []string
	table := &Table{Name: "x", Settings: []Setting{{Name: "a"}, {Name: "b"}, {Name: "c"}}}
	saved := 0
	f, err := Run(context.Background(), Options{
		Tables: []*Table{table}, Rounds: 3,
		Start: func(_ context.Context, s *Setting) (*launch.Server, error) {
			order = append(order, s.Name)
			return nil, errors.New("not now")
		},
		Done: func(*File) error {
			saved++
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	// One that did not start is not tried again.
	if got := strings.Join(order, ""); got != "abc" || saved != 3 || f.Tables[0].Settings[1].Error != "not now" {
		t.Errorf("got order %s, saved %d times, errors %q", got, saved, f.Tables[0].Settings[1].Error)
	}
	if !strings.Contains(f.Summary(), "not now") || len(f.NotDone) == 0 {
		t.Errorf("got\n%s", f.Summary())
	}
}

func TestRoundsOfAnInterruptedRunAreNotMadeAgain(t *testing.T) {
	now := func() []*Table {
		return []*Table{{Name: "x", Loads: []Load{{4, 1}}, Settings: []Setting{{Name: "a"}, {Name: "b"}, {Name: "c", Flags: []string{"--new"}}}}}
	}
	before := &File{Tables: now()}
	run := func(n int) []*load.Result { return make([]*load.Result, n) }
	before.Tables[0].Settings[0].Results, before.Tables[0].Settings[1].Results, before.Tables[0].Settings[2].Results = run(2), run(1), run(2)
	before.Tables[0].Settings[2].Flags = []string{"--old"}
	tables := now()
	Resume(tables, before)
	var order []string
	_, err := Run(context.Background(), Options{
		Tables: tables, Rounds: 2,
		Start: func(_ context.Context, s *Setting) (*launch.Server, error) {
			order = append(order, s.Name)
			return nil, errors.New("not now")
		},
		Done: func(*File) error { return nil },
	})
	if got := strings.Join(order, ""); err != nil || got != "cb" {
		t.Errorf("got order %q, %v, want c, whose flags are others, and the second round of b", got, err)
	}
}

func TestInterruptionEndsTheRun(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	n := 0
	_, err := Run(ctx, Options{
		Tables: []*Table{{Settings: make([]Setting, 5)}}, Rounds: 1,
		Start: func(context.Context, *Setting) (*launch.Server, error) {
			n++
			cancel()
			return nil, ctx.Err()
		},
		Done: func(*File) error { return nil },
	})
	if !errors.Is(err, context.Canceled) || n != 1 {
		t.Errorf("got %v after %d starts, want an end after one", err, n)
	}
}

func TestTablesHaveABaseAndLoads(t *testing.T) {
	for _, cpus := range []int{1, 8} {
		seen := map[string]bool{}
		for _, x := range Tables(cpus, []string{"avx2", "generic"}) {
			if seen[x.Name] || len(x.Settings) < 2 || len(x.Loads) == 0 || x.What == "" {
				t.Errorf("%d processors: got table %+v", cpus, x)
			}
			seen[x.Name] = true
			names := map[string]bool{}
			for _, s := range x.Settings {
				if names[s.Name] {
					t.Errorf("%s: got %q twice", x.Name, s.Name)
				}
				names[s.Name] = true
			}
		}
	}
}

func TestResultsAreFoundByLoad(t *testing.T) {
	s := Setting{Results: []*load.Result{{Callers: 4, Rows: 1, ExampleRate: 10}, {Callers: 4, Rows: 1, ExampleRate: 30}, {Callers: 64, Rows: 1, ExampleRate: 99}}}
	if got := load.MedianOf(s.Of(Load{4, 1}), Rate); got != 20 {
		t.Errorf("got %v, want 20", got)
	}
	if got := load.MedianOf(s.Of(Load{4, 2}), PerThousand); got != 0 {
		t.Errorf("nothing measured: got %v, want 0", got)
	}
}
