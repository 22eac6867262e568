package lint

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"strings"
)

// tool is a pinned program that checks the module; it complains by its exit status or by printing anything.
type tool struct {
	name string
	args []string
	fix  string
}

var tools = []tool{
	{"gofumpt", []string{"tool", "gofumpt", "-l", "."}, "run: go tool gofumpt -w <file>"},
	{"vet", []string{"vet", "./..."}, "mend what go vet says"},
	{"staticcheck", []string{"tool", "staticcheck", "./..."}, "mend what staticcheck says"},
}

// complaints runs the tool in dir and returns what it complains about, or "".
func (t tool) complaints(dir string) (string, error) {
	cmd := exec.Command("go", t.args...)
	cmd.Dir = dir
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return "", fmt.Errorf("run %s: %w", t.name, err)
	}
	text := strings.TrimSpace(stdout.String())
	if err != nil {
		text = strings.TrimSpace(text + "\n" + stderr.String())
	}
	if text == "" {
		return "", nil
	}
	return text + "\n" + t.fix, nil
}
