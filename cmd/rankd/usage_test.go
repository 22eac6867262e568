package main

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"rankd/internal/config"
	"rankd/predict"
)

// execute runs the program in this process.
func execute(args ...string) (output string, err error) {
	var b strings.Builder
	cmd := newRoot()
	cmd.SetOut(&b)
	cmd.SetErr(io.Discard)
	cmd.SetArgs(args)
	err = cmd.Execute()
	return b.String(), err
}

func TestWhatIsTypedWrongIsBadConfigurationAndNamed(t *testing.T) {
	for line, want := range map[string]string{
		"bogus":                           `no command is named "bogus", want bench, `,
		"sevre":                           `no command is named "sevre", is "serve" meant?`,
		"inspect bogus":                   `inspect: no command is named "bogus", want memory, placement, ready, ring, tables`,
		"model bogus":                     `model: no command is named "bogus", want check, compile, create-demo`,
		"bench bogus":                     `bench: no command is named "bogus"`,
		"help bogus":                      `no command is named "bogus"`,
		"serve --modle x":                 "serve: no flag is named --modle, is --model meant?",
		"--modle":                         "no flag is named --modle",
		"doctor --frontnds 4":             "doctor: no flag is named --frontnds, is --frontends meant?",
		"serve -x":                        "serve: unknown shorthand flag",
		"serve --model":                   "serve: check --model: got no value, want --model DIR",
		"serve --frontends four":          `check --frontends: got "four", want a whole number`,
		"serve --drain-delay 5":           `check --drain-delay: got "5"`,
		"serve --keep-tables maybe":       `serve: takes no arguments, got "maybe": write --keep-tables=false`,
		"serve --keep-tables=maybe":       `check --keep-tables: got "maybe", want true or false`,
		"serve":                           "check --model: got nothing",
		"model create-demo":               "model create-demo: want DIR, got nothing",
		"model create-demo a b":           `model create-demo: want DIR, got "a" "b"`,
		"model check":                     "model check: want DIR, got nothing",
		"predict a b":                     `predict: want [FILE], got "a" "b"`,
		"inspect ready now":               `inspect ready: takes no arguments, got "now"`,
		"inspect ready --listen nine:9:9": `inspect ready: check --listen: got "nine:9:9", want host:port`,
		"serve --model x --listen nohost": `check --listen: got "nohost"`,
		"serve --model x --http :99999":   `check --http: got ":99999"`,
	} {
		_, err := execute(strings.Fields(line)...)
		var coded *exitError
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("rankd %s: got %v, want %s", line, err, want)
		} else if !errors.As(err, &coded) || coded.code != config.ExitBadConfig {
			t.Errorf("rankd %s: got no exit code %v for %v", line, config.ExitBadConfig, err)
		}
	}
}

func TestAllThatIsTypedWrongAboutAServerIsToldAtOnce(t *testing.T) {
	_, err := execute("serve", "--model", "/nowhere", "--executor", "sim", "--frontends", "four", "--drain-timeout=30", "--chunk-rows=-1")
	if err == nil {
		t.Fatal("got no error")
	}
	for _, want := range []string{
		"serve: 4 mistakes:", `check --frontends: got "four", want a whole number`, `check --drain-timeout: got "30", want a duration`,
		"check --chunk-rows: got -1, want 0..4096", "check --model: open bundle",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
}

func TestHelpAndVersionAreNoErrors(t *testing.T) {
	for line, want := range map[string]string{
		"":                     "Usage:\n  rankd COMMAND",
		"--help":               "-h, --help  ",
		"inspect":              "Usage:\n  rankd inspect COMMAND",
		"help model":           "create-demo",
		"serve --help":         "Usage:\n  rankd serve --model DIR [flags]",
		"inspect ready --help": "-h, --help  ",
		"--version":            "layout of shared memory 1\n",
	} {
		if got, err := execute(strings.Fields(line)...); err != nil || !strings.Contains(got, want) {
			t.Errorf("rankd %s: got %v and\n%s\nwant %q", line, err, got, want)
		}
	}
}

func TestMistypedEnvironmentIsNoticed(t *testing.T) {
	got := unknownVariables(newRoot(), []string{
		"RANKD_LISTN=x", "RANKD_LISTEN=x", "RANKD_SHM_DIR=", "RANKD_PLUGIN_PATH=/p", "RANKD_E2E_SEED=1", "RANKD_E2=1", "RANKDX=1", "HOME=/", "RANKD_TARGET=x",
	})
	if want := []unknownVariable{{"RANKD_E2", ""}, {"RANKD_LISTN", "RANKD_LISTEN"}}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestPredictFollowsTheServersVariable(t *testing.T) {
	for _, c := range []struct{ listen, target, want string }{
		{"", "", "127.0.0.1:8500"},
		{"10.0.0.1:9000", "", "10.0.0.1:9000"},
		{":9000", "", "localhost:9000"},
		{"[::]:9000", "", "localhost:9000"},
		{"10.0.0.1:9000", "b:1", "b:1"},
	} {
		cfg := predict.Default()
		fs := pflag.NewFlagSet("predict", pflag.ContinueOnError)
		config.Bind(fs, &cfg)
		if c.target != "" {
			if err := fs.Set("target", c.target); err != nil {
				t.Fatal(err)
			}
		}
		followServer(fs, &cfg, func(string) string { return c.listen })
		if cfg.Target != c.want {
			t.Errorf("RANKD_LISTEN=%s --target %s: got %s, want %s", c.listen, c.target, cfg.Target, c.want)
		}
	}
}
