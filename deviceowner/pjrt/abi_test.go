package pjrt

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestI6LayoutsAreThoseOfTheOfficialHeader compiles testdata/abi_check.c, which compares abi.h with the header of the C API
// that the go-xla module carries.
func TestI6LayoutsAreThoseOfTheOfficialHeader(t *testing.T) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/gomlx/go-xla").Output()
	if err != nil {
		t.Fatalf("find the official header: %v", err)
	}
	official := filepath.Join(strings.TrimSpace(string(out)), "pkg", "pjrt")
	compile := func(source string) (string, error) {
		cc := exec.Command("cc", "-std=gnu11", "-fsyntax-only", "-x", "c", "-I", official, "-I", "testdata", "-")
		cc.Stdin = strings.NewReader(source)
		said, err := cc.CombinedOutput()
		return string(said), err
	}
	text, err := os.ReadFile(filepath.Join("testdata", "abi_check.c"))
	if err != nil {
		t.Fatal(err)
	}
	source := strings.ReplaceAll(string(text), `"../abi.h"`, `"abi.h"`)
	cwd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	source = strings.ReplaceAll(source, `"abi.h"`, `"`+filepath.Join(cwd, "abi.h")+`"`)
	if said, err := compile(source); err != nil {
		t.Errorf("%v: %s", err, said)
	}
	// The check itself must be able to fail.
	for name, change := range map[string][2]string{
		"slot":  {"SLOT(pj_deserialize, PJRT_Executable_DeserializeAndLoad)", "SLOT(pj_deserialize, PJRT_Executable_Serialize)"},
		"field": {"FIELD(pj_execute, device, PJRT_LoadedExecutable_Execute_Args, execute_device)", "FIELD(pj_execute, device, PJRT_LoadedExecutable_Execute_Args, num_args)"},
		"size":  {"LIKE(pj_upload, buffer, PJRT_Client_BufferFromHostBuffer_Args)", "LIKE(pj_upload, host_done, PJRT_Client_BufferFromHostBuffer_Args)"},
	} {
		wrong := strings.Replace(source, change[0], change[1], 1)
		if wrong == source {
			t.Fatalf("%s: the line to change is not there", name)
		}
		if said, err := compile(wrong); err == nil || !strings.Contains(said, "assertion failed") {
			t.Errorf("a wrong %s: got %v %s, want a failed assertion", name, err, said)
		}
	}
}

// TestI6EveryLayoutIsCompared finds the struct members, slots and values of abi.h that abi_check.c forgets.
func TestI6EveryLayoutIsCompared(t *testing.T) {
	header, err := os.ReadFile("abi.h")
	if err != nil {
		t.Fatal(err)
	}
	check, err := os.ReadFile(filepath.Join("testdata", "abi_check.c"))
	if err != nil {
		t.Fatal(err)
	}
	var wanted []string
	for _, m := range regexp.MustCompile(`(?s)struct (pj_\w+) \{\n(.*?)\n\};`).FindAllStringSubmatch(string(header), -1) {
		wanted = append(wanted, m[1]+", struct_size") // by LIKE, below
		body := regexp.MustCompile(`(?s)  union \{\n(.*?)\n  \} value;`).ReplaceAllStringFunc(m[2], func(union string) string {
			inner := strings.TrimSuffix(strings.TrimPrefix(union, "  union {\n"), "\n  } value;")
			for _, f := range memberNames(inner) {
				wanted = append(wanted, m[1]+", value."+f)
			}
			return "  int value;"
		})
		for _, f := range memberNames(body) {
			if f != "struct_size" && f != "extensions" {
				wanted = append(wanted, m[1]+", "+f)
			}
		}
	}
	for _, m := range regexp.MustCompile(`(?m)\b(pj_\w+) = \d+`).FindAllStringSubmatch(string(header), -1) {
		wanted = append(wanted, m[1])
	}
	if len(wanted) < 120 {
		t.Fatalf("got %d layouts, want all of abi.h", len(wanted))
	}
	for _, w := range wanted {
		name, field, isField := strings.Cut(w, ", ")
		patterns := []string{"SLOT(" + name + ", ", "VALUE(" + name + ", "}
		if isField {
			patterns = []string{"FIELD(" + name + ", " + field + ", ", "PLACE(" + name + ", " + field + ", "}
			if field == "struct_size" {
				patterns = append(patterns, "LIKE("+name+", ")
			}
		}
		found := false
		for _, p := range patterns {
			found = found || strings.Contains(string(check), p)
		}
		if !found {
			t.Errorf("%s of abi.h is not compared in abi_check.c", w)
		}
	}
}

// memberNames lists the members that the lines of a struct declare.
func memberNames(body string) (names []string) {
	for line := range strings.Lines(body) {
		line, _, _ = strings.Cut(line, "//")
		line = strings.TrimSuffix(strings.TrimSpace(line), ";")
		if m := regexp.MustCompile(`\(\*(\w+)\)\(|(\w+)(\[\d*\])?$`).FindStringSubmatch(line); m != nil {
			names = append(names, m[1]+m[2])
		}
	}
	return names
}
