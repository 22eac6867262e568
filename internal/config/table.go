package config

import (
	"fmt"
	"strings"
)

// Table renders every visible flag of the struct that c points to as a Markdown table: name, environment variable, unit,
// default (the current value), bounds and meaning.
func Table(c any) string {
	cell := strings.NewReplacer("|", `\|`, "\n", " ")
	var b strings.Builder
	b.WriteString("| flag | environment | unit | default | bounds | meaning |\n|---|---|---|---|---|---|\n")
	for _, f := range fields(c) {
		if f.hidden {
			continue
		}
		def := formatValue(f.value)
		if def != "" {
			def = "`" + def + "`"
		}
		unit := f.unit
		if unit == "" {
			unit = kindName(f.value.Type())
		}
		fmt.Fprintf(&b, "| `--%s` | `%s` | %s | %s | %s | %s |\n",
			f.name, EnvName(f.name), unit, cell.Replace(def), cell.Replace(boundText(f)), cell.Replace(f.about()))
	}
	return b.String()
}
