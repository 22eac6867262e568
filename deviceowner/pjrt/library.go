package pjrt

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"rankd/deviceowner/executor"
)

// entryPoint is the function that every PJRT plugin exports.
const entryPoint = "GetPjrtApi"

var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// notLoaded judges why the dynamic loader or the plugin itself refused: a library that is missing or of another version will
// be so the next time, a lack of memory or descriptors need not. The loader gives no more than its text.
func notLoaded(path string, err error) error {
	err = fmt.Errorf("load plugin %q: %w", path, err)
	var said *Error
	text := strings.ToLower(err.Error())
	if errors.As(err, &said) || strings.Contains(text, unix.ENOMEM.Error()) || strings.Contains(text, unix.EMFILE.Error()) || strings.Contains(text, unix.ENFILE.Error()) {
		return err
	}
	return executor.Permanent(err)
}

// CheckPlugin finds the plugin as an executor does and refuses a file that cannot be one, without loading it.
func CheckPlugin(path, platform string) error {
	found, err := ResolvePlugin(path, platform)
	if err != nil {
		return err
	}
	return checkLibrary(found)
}

// checkLibrary refuses a file that cannot be a plugin for this machine. The dynamic loader would map a truncated library
// and die with SIGBUS on its missing pages, so that is found out here, where it can be an error: a permanent one.
func checkLibrary(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return wrong("check plugin %q: %w", path, cause(err))
	}
	f, err := elf.Open(path)
	if err != nil {
		return wrong("check plugin %q: is not a complete shared library, want a PJRT plugin for %s: %w", path, runtime.GOARCH, err)
	}
	defer f.Close()
	if want, known := machines[runtime.GOARCH]; known && f.Machine != want {
		return wrong("check plugin %q: got a library for %s, want %s", path, f.Machine, want)
	}
	if f.Type != elf.ET_DYN {
		return wrong("check plugin %q: got %s, want a shared library", path, f.Type)
	}
	size := uint64(info.Size())
	for _, p := range f.Progs {
		if end := p.Off + p.Filesz; end > size || end < p.Off {
			return wrong("check plugin %q: is truncated: got %d bytes, its segments end at %d", path, size, end)
		}
	}
	symbols, err := f.DynamicSymbols()
	if err != nil {
		return wrong("check plugin %q: read its symbols: %w", path, err)
	}
	for i := range symbols {
		if symbols[i].Name == entryPoint && symbols[i].Section != elf.SHN_UNDEF {
			return nil
		}
	}
	return wrong("check plugin %q: exports no %s, so it is no PJRT plugin", path, entryPoint)
}
