package hugemem

import (
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"rankd/internal/mounts"
)

// HugeOption is the option by which files of a mount of tmpfs get huge pages without asking, or "".
func HugeOption(m mounts.Mount) string {
	i := slices.IndexFunc(m.Options, func(o string) bool { return o == "huge=always" || o == "huge=within_size" })
	if m.Type != "tmpfs" || i < 0 {
		return ""
	}
	return m.Options[i]
}

func hugeTmpfs(m mounts.Mount) bool { return HugeOption(m) != "" }

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
	list, err := mounts.Read("")
	if err != nil {
		return k, nil // without /proc the mount's options are unknown; the pages are read back anyway
	}
	dev := fmt.Sprintf("%d:%d", unix.Major(uint64(st.Dev)), unix.Minor(uint64(st.Dev)))
	for _, m := range list {
		if m.Device == dev && hugeTmpfs(m) {
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

func hugeTmpfsDirs() []string { return writableMounts(hugeTmpfs) }

func hugetlbDirs() []string {
	return writableMounts(func(m mounts.Mount) bool { return m.Type == "hugetlbfs" })
}

func writableMounts(want func(mounts.Mount) bool) []string {
	list, err := mounts.Read("")
	if err != nil {
		return nil
	}
	var out []string
	for _, m := range list {
		if want(m) && m.Point != DefaultDir && !slices.Contains(out, m.Point) && unix.Access(m.Point, unix.W_OK|unix.X_OK) == nil {
			out = append(out, m.Point)
		}
	}
	return out
}
