package lint

// rule is one check over a whole module.
type rule struct {
	name  string
	check func(*module) []finding
}

// rules are all checks that need nothing but the text.
var rules = []rule{
	{"parse", checkParse},
	{"doc", checkDoc},
	{"package-name", checkPackageName},
	{"unsafe", checkUnsafe},
	{"cgo", checkCgo},
	{"imports", checkImports},
	{"typed-atomics", checkTypedAtomics},
	{"sync-pairs", checkSyncPairs},
	{"invariants", checkInvariants},
	{"sleep", checkSleep},
	{"error-text", checkErrorText},
	{"loggers", checkLoggers},
	{"suppressions", checkSuppressions},
	{"length", checkLength},
	{"assembly-twin", checkAssemblyTwin},
	{"own-paths", checkOwnPaths},
}

func checkParse(m *module) []finding {
	var found []finding
	for _, f := range m.files {
		if f.err != nil {
			found = append(found, finding{path: f.path, message: "does not parse: " + f.err.Error()})
		}
	}
	return found
}
