package suite

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	pythonDir = "bench/python"
	cppDir    = "bench/cpp"
)

// Prepare makes what the comparison needs and does not have yet: the model, the expected scores, the Python packages, the C++ server.
// It may use all processors, so it comes before pinning. What an arm lacks is no error here: Run says so.
func Prepare(ctx context.Context, o Options) error {
	s, err := newSuite(&o)
	if err != nil {
		return err
	}
	for _, rows := range o.rowTypes() {
		b, err := s.makeModel(ctx, rows)
		if err != nil {
			return err
		}
		if _, err := s.openExam(ctx, b); err != nil {
			return err
		}
	}
	needs := map[kind]bool{}
	for _, a := range o.chosen() {
		needs[a.kind] = true
	}
	if needs[python] && o.Python == "" {
		if err := s.installPython(ctx); err != nil && ctx.Err() == nil {
			fmt.Fprintf(o.Progress, "Python servers: %v\n", err)
		}
	}
	if needs[cpp] && o.Simulated() && ctx.Err() == nil {
		if err := s.buildCPP(ctx); err != nil && ctx.Err() == nil {
			fmt.Fprintf(o.Progress, "C++ server: %v\n", err)
		}
	}
	return ctx.Err()
}

// installPython makes a virtual environment with the packages whose hashes are pinned.
func (s *suite) installPython(ctx context.Context) error {
	if _, err := os.Stat(s.python); err == nil {
		return nil
	}
	dir := filepath.Dir(filepath.Dir(s.python))
	fmt.Fprintf(s.o.Progress, "installing the packages of the Python servers into %s\n", dir)
	made := dir + ".new"
	all, err := os.ReadFile(filepath.Join(s.o.Source, pythonDir, "requirements.txt"))
	if err == nil {
		err = os.RemoveAll(made)
	}
	if err == nil {
		err = s.quietly(ctx, "python3", "-m", "venv", made)
	}
	requirements := filepath.Join(made, "requirements.txt")
	if err == nil {
		err = os.WriteFile(requirements, needed(all, !s.o.Simulated()), 0o644)
	}
	if err == nil {
		err = s.quietly(ctx, filepath.Join(made, "bin", "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--require-hashes", "-r", requirements)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("install packages: %w", err), os.RemoveAll(made))
	}
	return os.Rename(made, dir) // its interpreter is called by its path; nothing in it names the folder but scripts that are not used
}

// notServing are packages of the tests, and of what the model's network needs beyond the rest.
var (
	notServing = []string{"pytest", "mypy", "ruff", "mypy-extensions", "pluggy", "iniconfig", "packaging", "pygments", "pathspec", "librt", "ast-serialize"}
	forNetwork = []string{"jax", "jaxlib", "ml-dtypes", "opt-einsum", "scipy"}
)

// needed leaves out the packages that servers do not need here. Each one is a line that begins with its name and lines of hashes.
func needed(requirements []byte, network bool) []byte {
	var out bytes.Buffer
	kept := true
	for line := range bytes.Lines(requirements) {
		if name, _, ok := bytes.Cut(line, []byte("==")); ok && !bytes.ContainsAny(name, " #") {
			kept = !slices.Contains(notServing, string(name)) && (network || !slices.Contains(forNetwork, string(name)))
		}
		if kept {
			out.Write(line)
		}
	}
	return out.Bytes()
}

// buildCPP builds the C++ server. Why it failed is kept beside it, for the report.
func (s *suite) buildCPP(ctx context.Context) error {
	source := filepath.Join(s.o.Source, cppDir)
	digest, err := DigestFiles(source)
	if err != nil {
		return s.cppFailed(errors.New("it is not a part of this repository"))
	}
	marker := filepath.Join(filepath.Dir(s.cpp), "source")
	if old, _ := os.ReadFile(marker); string(old) == digest { // no answer: it was not built
		return nil
	}
	if _, err := exec.LookPath("cmake"); err != nil {
		return s.cppFailed(errors.New("cmake is missing: apt-get install cmake g++ pkg-config protobuf-compiler protobuf-compiler-grpc libprotobuf-dev libgrpc++-dev"))
	}
	fmt.Fprintln(s.o.Progress, "building the C++ server")
	dir := filepath.Dir(s.cpp)
	err = os.RemoveAll(dir) // of another source, or of a machine that lacked something
	if err == nil {
		err = s.quietly(ctx, "cmake", "-S", source, "-B", dir, "-DCMAKE_BUILD_TYPE=Release")
	}
	if err == nil {
		err = s.quietly(ctx, "cmake", "--build", dir, "--target", filepath.Base(s.cpp), "--parallel")
	}
	switch {
	case ctx.Err() != nil: // not a reason why it is missing
		return errors.Join(err, os.RemoveAll(dir))
	case err != nil:
		return s.cppFailed(err)
	}
	return os.WriteFile(marker, []byte(digest), 0o644)
}

func (s *suite) cppFailed(why error) error {
	dir := filepath.Dir(s.cpp)
	return errors.Join(why, os.RemoveAll(s.cpp), os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, whyName), []byte(why.Error()), 0o644))
}

// whyName is the file that says why there is no C++ server.
const whyName = "why"

// patience is how long a command that was asked to end may take.
const patience = 10 * time.Second

// quietly runs a command and shows what it prints only if it fails. With ctx it ends together with all processes that it has started,
// which would go on writing into what is removed.
func (s *suite) quietly(ctx context.Context, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interruption at the terminal comes to us alone, and we pass it on
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGTERM) }
	cmd.WaitDelay = patience
	out, err := cmd.CombinedOutput()
	if cmd.Process != nil {
		_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL) // whoever is left; mostly nobody is
	}
	if err != nil {
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		return fmt.Errorf("run %s: %w: %s", filepath.Base(name), err, strings.Join(lines[max(0, len(lines)-5):], "; "))
	}
	return nil
}

// missing says why an arm cannot run here; "": it can.
func (s *suite) missing(a arm) string {
	switch a.kind {
	case python:
		if _, err := os.Stat(s.python); err != nil {
			return fmt.Sprintf("its Python packages are missing (%s): see the messages of the installation", s.python)
		}
	case cpp:
		if !s.o.Simulated() {
			return "it has no network of its own: simulated accelerator only"
		}
		if _, err := os.Stat(s.cpp); err != nil {
			why, err := os.ReadFile(filepath.Join(filepath.Dir(s.cpp), whyName))
			if err != nil {
				return "it is not built yet"
			}
			return "it was not built: " + string(why)
		}
	}
	return ""
}

// DigestFiles is a digest of all files below directories, and of single files.
func DigestFiles(paths ...string) (string, error) {
	h := sha256.New()
	for _, root := range paths {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || strings.Contains(path, "__pycache__") {
				return err
			}
			f, err := os.Open(path)
			if err != nil {
				return err
			}
			defer f.Close()
			name, _ := filepath.Rel(root, path) // below it
			fmt.Fprintf(h, "%s\n", name)
			_, err = io.Copy(h, f)
			return err
		})
		if err != nil {
			return "", fmt.Errorf("read %s: %w", root, err)
		}
	}
	return hex.EncodeToString(h.Sum(nil))[:16], nil
}
