package hugemem

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// mount is one line of mountinfo.
type mount struct {
	device  string // "major:minor"
	root    string // the directory of the filesystem that is mounted
	point   string
	fstype  string
	options []string // of the superblock
}

// hugeTmpfs reports whether files of this mount get huge pages without asking.
func (m mount) hugeTmpfs() bool {
	return m.fstype == "tmpfs" && (slices.Contains(m.options, "huge=always") || slices.Contains(m.options, "huge=within_size"))
}

// readMounts parses root/proc/self/mountinfo. Mounts that a later one hides stay in the list; opening a file there is
// what decides.
func readMounts(root string) ([]mount, error) {
	f, err := os.Open(filepath.Join(root, "/proc/self/mountinfo"))
	if err != nil {
		return nil, fmt.Errorf("read mounts: %w", err)
	}
	defer f.Close()
	var out []mount
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		left, right, ok := strings.Cut(sc.Text(), " - ")
		l, r := strings.Fields(left), strings.Fields(right)
		if !ok || len(l) < 6 || len(r) < 3 {
			continue
		}
		out = append(out, mount{
			device: l[2], root: unescape(l[3]), point: unescape(l[4]),
			fstype: r[0], options: strings.Split(r[2], ","),
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

// fsKind is the part of a filesystem that matters here.
type fsKind struct {
	tmpfs    bool
	hugetlb  bool
	huge     bool // tmpfs with huge=always or within_size
	pageSize int64
	magic    uint64
}

// kindOfFD looks at the filesystem of an open file.
func kindOfFD(fd int) (fsKind, error) {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil {
		return fsKind{}, fmt.Errorf("stat filesystem: %w", err)
	}
	k := fsKind{magic: uint64(uint32(fs.Type)), pageSize: fs.Bsize}
	k.tmpfs = k.magic == unix.TMPFS_MAGIC
	k.hugetlb = k.magic == unix.HUGETLBFS_MAGIC
	if !k.tmpfs {
		return k, nil
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fsKind{}, fmt.Errorf("stat file: %w", err)
	}
	mounts, err := readMounts("")
	if err != nil {
		return k, nil // without /proc the mount's options are unknown; the pages are read back anyway
	}
	dev := fmt.Sprintf("%d:%d", unix.Major(uint64(st.Dev)), unix.Minor(uint64(st.Dev)))
	for _, m := range mounts {
		if m.device == dev && m.hugeTmpfs() {
			k.huge = true
		}
	}
	return k, nil
}

// kindOfDir looks at the filesystem that a directory is on.
func kindOfDir(dir string) (fsKind, error) {
	d, err := os.Open(dir)
	if err != nil {
		return fsKind{}, fmt.Errorf("open directory for shared pages: %w", err)
	}
	defer d.Close()
	return kindOfFD(int(d.Fd()))
}

// DefaultDir is where named files go if neither a directory is given nor one with huge pages is found.
const DefaultDir = "/dev/shm"

// Dirs lists the directories in which Create puts named files, best first: dir alone if it is not empty, otherwise every
// writable tmpfs with huge pages, every writable hugetlbfs, and DefaultDir. Whoever looks for a named file again looks there.
func Dirs(dir string) []string {
	if dir != "" {
		return []string{dir}
	}
	return append(append(hugeTmpfsDirs(), hugetlbDirs()...), DefaultDir)
}

func hugeTmpfsDirs() []string { return writableMounts(mount.hugeTmpfs) }

func hugetlbDirs() []string {
	return writableMounts(func(m mount) bool { return m.fstype == "hugetlbfs" })
}

func writableMounts(want func(mount) bool) []string {
	mounts, err := readMounts("")
	if err != nil {
		return nil
	}
	var out []string
	for _, m := range mounts {
		if want(m) && m.point != DefaultDir && !slices.Contains(out, m.point) && unix.Access(m.point, unix.W_OK|unix.X_OK) == nil {
			out = append(out, m.point)
		}
	}
	return out
}
