package mounts

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Mount is one line of mountinfo.
type Mount struct {
	Device  string // "major:minor"
	Root    string // the directory of the filesystem that is mounted
	Point   string
	Type    string   // of the filesystem
	Options []string // of the superblock
}

// Read parses root/proc/self/mountinfo; root is empty but for tests.
func Read(root string) ([]Mount, error) {
	f, err := os.Open(filepath.Join(root, "/proc/self/mountinfo"))
	if err != nil {
		return nil, fmt.Errorf("read mounts: %w", err)
	}
	defer f.Close()
	var out []Mount
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		left, right, ok := strings.Cut(sc.Text(), " - ")
		l, r := strings.Fields(left), strings.Fields(right)
		if !ok || len(l) < 6 || len(r) < 3 {
			continue
		}
		out = append(out, Mount{
			Device: l[2], Root: unescape(l[3]), Point: unescape(l[4]),
			Type: r[0], Options: strings.Split(r[2], ","),
		})
	}
	return out, sc.Err()
}

// unescape undoes the \ooo octal escapes of mountinfo.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if v, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(v))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
