package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"rankd/internal/config"
)

// otherVariables are those that are no flags: of the device plugin, of test builds, and of the scripts and tests around. One
// that ends in "_" stands for all that begin with it.
var otherVariables = []string{
	"RANKD_PLUGIN_PATH", "RANKD_FAULTS", "RANKD_FAULTS_FILE", "RANKD_SIM_", "RANKD_DEMO_", "RANKD_E2E_", "RANKD_TEST_",
	"RANKD_REQUIRE_", "RANKD_BIN",
}

// unknownVariable looks like ours, and nothing reads it. near is the one that was most likely meant, or "".
type unknownVariable struct{ name, near string }

// unknownVariables lists those of an environment, sorted. A variable for a flag of another command is known: one environment
// may be meant for several.
func unknownVariables(root *cobra.Command, environment []string) (unknown []unknownVariable) {
	known := map[string]bool{}
	addVariables(root, known)
	for _, entry := range environment {
		name, _, _ := strings.Cut(entry, "=")
		other := slices.ContainsFunc(otherVariables, func(o string) bool {
			return name == o || strings.HasSuffix(o, "_") && strings.HasPrefix(name, o)
		})
		if strings.HasPrefix(name, "RANKD_") && !known[name] && !other {
			unknown = append(unknown, unknownVariable{name, nearVariable(name, known)})
		}
	}
	slices.SortFunc(unknown, func(a, b unknownVariable) int { return strings.Compare(a.name, b.name) })
	return unknown
}

// nearVariable compares what comes after the prefix, which all have.
func nearVariable(name string, known map[string]bool) string {
	const prefix = "RANKD_"
	var rest []string
	for k := range known {
		rest = append(rest, strings.TrimPrefix(k, prefix))
	}
	slices.Sort(rest)
	if near := config.Nearest(strings.TrimPrefix(name, prefix), rest); near != "" {
		return prefix + near
	}
	return ""
}

func addVariables(cmd *cobra.Command, known map[string]bool) {
	add := func(f *pflag.Flag) { known[config.EnvName(f.Name)] = true }
	cmd.Flags().VisitAll(add)
	cmd.PersistentFlags().VisitAll(add)
	for _, sub := range cmd.Commands() {
		addVariables(sub, known)
	}
}
