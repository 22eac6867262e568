package execache

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
)

// fileState is what tells that a file is still the one that was digested. The time of change of the inode cannot be set back
// by the file's owner.
type fileState struct {
	Path   string `json:"path"`
	Device uint64 `json:"device"`
	Inode  uint64 `json:"inode"`
	Bytes  int64  `json:"bytes"`
	Wrote  int64  `json:"wrote_ns"`
	Change int64  `json:"changed_ns"`
}

type digested struct {
	fileState
	Digest string `json:"sha256"`
}

// FileDigest returns the hex SHA-256 of a large file that seldom changes. The cache remembers it for as long as the file's
// size, inode and times stay the same.
func (c *Cache) FileDigest(path string) (string, error) {
	f, state, err := openState(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.Sum256([]byte(path))
	name := "digest." + hex.EncodeToString(sum[:8]) + ".json"
	var known digested
	if b, err := c.read(name, 64<<10); err == nil && json.Unmarshal(b, &known) == nil && known.fileState == state && len(known.Digest) == 64 {
		return known.Digest, nil
	}
	digest, err := digestOf(f, state)
	if err != nil {
		return "", err
	}
	known = digested{state, digest}
	b, _ := json.Marshal(known) // strings and numbers always have a form
	if err := c.write(name, b); err != nil {
		c.log.Warn("digest cannot be remembered", "file", path, "error", err)
	}
	return known.Digest, nil
}

// FileDigest is Cache.FileDigest for those who have no cache: it reads the file every time.
func FileDigest(path string) (string, error) {
	f, state, err := openState(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	return digestOf(f, state)
}

// openState opens a file and notes its state. The caller closes it.
func openState(path string) (*os.File, fileState, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fileState{}, fmt.Errorf("digest file: %w", err)
	}
	state, err := stateOf(f, path)
	if err != nil {
		_ = f.Close() // it was only read
		return nil, fileState{}, fmt.Errorf("digest file %q: %w", path, err)
	}
	return f, state, nil
}

// digestOf reads a whole file that must still be in the given state at the end.
func digestOf(f *os.File, state fileState) (string, error) {
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("digest file %q: %w", state.Path, err)
	}
	if after, err := stateOf(f, state.Path); err != nil || after != state {
		return "", fmt.Errorf("digest file %q: it changed meanwhile", state.Path)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func stateOf(f *os.File, path string) (fileState, error) {
	info, err := f.Stat()
	if err != nil {
		return fileState{}, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fileState{}, errors.New("its state is not known")
	}
	return fileState{
		Path: path, Device: uint64(st.Dev), Inode: st.Ino, Bytes: st.Size,
		Wrote: st.Mtim.Nano(), Change: st.Ctim.Nano(),
	}, nil
}
