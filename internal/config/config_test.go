package config

import (
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

type inner struct {
	Threads int     `flag:"threads" unit:"threads" min:"1" max:"64" help:"worker threads"`
	Share   float64 `flag:"share" min:"0" max:"1" help:"share of the time"`
}

type sample struct {
	On     bool          `flag:"on" help:"switch"`
	N64    int64         `flag:"n64" min:"-10" help:"number"`
	U32    uint32        `flag:"u32" max:"100" when:"mode=sim" help:"number"`
	Name   string        `flag:"name" help:"name"`
	Mode   string        `flag:"mode" oneof:"pjrt|sim" help:"executor"`
	Wait   time.Duration `flag:"wait" unit:"duration" min:"1ms" max:"1h" help:"time"`
	Limit  Bytes         `flag:"limit" unit:"bytes" min:"1KiB" max:"1GiB" help:"size"`
	CPUs   []int         `flag:"cpus" min:"0" help:"processors"`
	Labels []string      `flag:"labels" help:"labels"`
	Secret int           `flag:"secret-fd" hidden:"true" help:"inherited"`
	Inner  inner
}

func parseInto(t *testing.T, c *sample, args []string) {
	t.Helper()
	fs := pflag.NewFlagSet("t", pflag.ContinueOnError)
	Bind(fs, c)
	if err := fs.Parse(args); err != nil {
		t.Fatalf("parse %q: %v", args, err)
	}
	if fs.NArg() != 0 {
		t.Fatalf("parse %q: left over %q", args, fs.Args())
	}
}

func newRandom(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

func randomText(r *rand.Rand) string {
	alphabet := []rune(`ab,\"'=- é%{}` + "\n\r\t\x00")
	text := make([]rune, 1+r.IntN(6))
	for i := range text {
		text[i] = alphabet[r.IntN(len(alphabet))]
	}
	return string(text)
}

func randomSample(r *rand.Rand) sample {
	c := sample{
		On: r.IntN(2) == 0, N64: int64(r.Uint64()), U32: r.Uint32(), Name: randomText(r)[1:], Mode: randomText(r),
		Wait: time.Duration(r.Int64()), Limit: Bytes(r.Int64() >> r.IntN(63) << r.IntN(20) & (1<<62 - 1)), Secret: -r.IntN(9),
		Inner: inner{Threads: int(r.Uint64()), Share: r.NormFloat64()},
	}
	for range r.IntN(4) {
		c.CPUs = append(c.CPUs, r.IntN(100)-50)
		c.Labels = append(c.Labels, randomText(r))
	}
	return c
}

func TestI1ArgumentsReadBackAsTheSameStruct(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	r := newRandom(seed)
	for range 2000 {
		want, got := randomSample(r), randomSample(r) // whatever got held before must not show
		args := ToArgs(want)
		parseInto(t, &got, args)
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("seed %d: got %+v, want %+v from %q", seed, got, want, args)
		}
	}
}

func TestListFlagReplacesDefaultThenGathers(t *testing.T) {
	c := sample{CPUs: []int{9}}
	parseInto(t, &c, []string{"--cpus=1,2", "--cpus=3", "--on"})
	if !reflect.DeepEqual(c.CPUs, []int{1, 2, 3}) || !c.On {
		t.Fatalf("got cpus %v on %v, want [1 2 3] true", c.CPUs, c.On)
	}
}

func TestI3CheckReportsEveryViolation(t *testing.T) {
	good := sample{Mode: "sim", Wait: time.Second, Limit: 1 << 20, CPUs: []int{0, 3}, Inner: inner{Threads: 1}}
	if err := Check(&good); err != nil {
		t.Fatalf("check a good config: %v", err)
	}
	bad := sample{N64: -11, U32: 101, Mode: "gpu", Wait: 2 * time.Hour, Limit: 1, CPUs: []int{1, -2}, Inner: inner{Threads: 65, Share: 1.5}, Labels: []string{""}}
	wantAll(t, Check(&bad), "--n64: got -11, want at least -10", "--u32: got 101, want at most 100",
		`--mode: got "gpu", want pjrt or sim`, "--wait: got 2h, want 1ms..1h", "--limit: got 1, want 1KiB..1GiB",
		"--cpus: got -2, want at least 0", "--threads: got 65, want 1..64", "--share: got 1.5, want 0..1", "--labels")
}

func wantAll(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("got no error, want one with %q", parts)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("got error %q, want it to contain %q", err, p)
		}
	}
}

func TestParseBytes(t *testing.T) {
	for text, want := range map[string]Bytes{
		"0": 0, "4096": 4096, "4096B": 4096, "16MiB": 16 << 20, "1GiB": 1 << 30, "1.5GiB": 3 << 29, " 2 KiB ": 2048,
		"8191PiB": -1, "9223372036854775807": 1<<63 - 1, "8388608TiB": -1, "-1": -1, "1.0001KiB": -1, "1MB": -1, "": -1, "NaN": -1,
	} {
		got, err := ParseBytes(text)
		if (err != nil) != (want < 0) || (err == nil && got != want) {
			t.Errorf("parse %q: got %d, %v, want %d", text, got, err, want)
		}
	}
}

func TestStructsBoundToOneSetShareFlagsOfOneName(t *testing.T) {
	type first struct {
		Limit Bytes `flag:"limit" help:"size"`
		CPUs  []int `flag:"cpus" help:"processors"`
	}
	type second struct {
		Limit Bytes `flag:"limit" help:"size"`
		CPUs  []int `flag:"cpus" help:"processors"`
		Own   int   `flag:"own" help:"number"`
	}
	a, b := first{Limit: 1}, second{Limit: 2, CPUs: []int{7}}
	fs := pflag.NewFlagSet("t", pflag.ContinueOnError)
	Bind(fs, &a)
	Bind(fs, &b)
	if b.Limit != 1 || b.CPUs != nil {
		t.Errorf("got %+v before parsing, want the defaults of the first struct", b)
	}
	if err := fs.Parse([]string{"--limit=3KiB", "--cpus=1", "--cpus=2", "--own=4"}); err != nil {
		t.Fatal(err)
	}
	if a.Limit != 3072 || b.Limit != 3072 || !reflect.DeepEqual(a.CPUs, []int{1, 2}) || !reflect.DeepEqual(b.CPUs, []int{1, 2}) || b.Own != 4 {
		t.Errorf("got %+v and %+v, want both set", a, b)
	}
}

func TestTableShowsEveryVisibleFlag(t *testing.T) {
	table := Table(&sample{Limit: 16 << 20})
	for _, want := range []string{"| `--limit` | `RANKD_LIMIT` | bytes | `16MiB` | 1KiB..1GiB | size |", "`--threads`"} {
		if !strings.Contains(table, want) {
			t.Errorf("got table %s, want a row %s", table, want)
		}
	}
	if strings.Contains(table, "secret-fd") {
		t.Error("the table shows a hidden flag")
	}
}

func TestUnusableStructsPanicWhenBound(t *testing.T) {
	for name, c := range map[string]any{
		"unknown kind": &struct {
			X complex64 `flag:"x"`
		}{},
		"bad bound": &struct {
			X int `flag:"x" min:"one"`
		}{},
		"bound on a string": &struct {
			X string `flag:"x" min:"1"`
		}{},
		"twice": &struct {
			X int `flag:"x"`
			Y int `flag:"x"`
		}{},
		"not a pointer": struct{}{},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("got no panic, want one")
				}
			}()
			Bind(pflag.NewFlagSet("t", pflag.ContinueOnError), c)
		})
	}
}

func TestBytesForPeople(t *testing.T) {
	for b, want := range map[Bytes]string{0: "0 B", 1023: "1023 B", 1536: "1.50 KiB", 3182915584: "2.96 GiB", 1 << 50: "1024.00 TiB"} {
		if got := b.Human(); got != want {
			t.Errorf("%d bytes: got %q, want %q", int64(b), got, want)
		}
	}
}
