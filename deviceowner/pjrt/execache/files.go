package execache

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// private reports why what is stored there could be the work of another user.
func private(info fs.FileInfo) error { return writtenBy(info, os.Geteuid()) }

// trusted is private for what root may have put there too: it could replace this program as well.
func trusted(info fs.FileInfo) error { return writtenBy(info, os.Geteuid(), 0) }

func writtenBy(info fs.FileInfo, users ...int) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return errors.New("its owner is not known")
	}
	known := false
	for _, u := range users {
		known = known || int(st.Uid) == u
	}
	if !known {
		want := fmt.Sprint(users[0])
		if len(users) > 1 && users[0] != 0 {
			want += " or root"
		}
		return fmt.Errorf("got owner %d, want %s", st.Uid, want)
	}
	if mode := info.Mode().Perm(); mode&0o022 != 0 {
		return fmt.Errorf("got mode %v, want one that lets nobody else write", mode)
	}
	return nil
}

// openFolder opens a folder whose content may be used.
func openFolder(dir string, trust func(fs.FileInfo) error) (*os.Root, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	info, err := root.Stat(".")
	if err == nil {
		if err = trust(info); err != nil {
			err = fmt.Errorf("folder %q: %w", dir, err)
		}
	}
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return root, nil
}

// readFile returns the content of a file whose writer is trusted.
func readFile(root *os.Root, name string, limit int64, trust func(fs.FileInfo) error) ([]byte, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: got %s, want a file", ErrUnusable, info.Mode().Type())
	}
	if err := trust(info); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnusable, err)
	}
	if info.Size() > limit {
		return nil, fmt.Errorf("%w: got %d bytes, want at most %d", ErrUnusable, info.Size(), limit)
	}
	b := make([]byte, info.Size())
	if _, err := io.ReadFull(f, b); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnusable, err)
	}
	return b, nil
}

// writeFile makes a file whole or not at all.
func writeFile(root *os.Root, name string, mode fs.FileMode, parts ...[]byte) (err error) {
	temporary := fmt.Sprintf("%s.%s.tmp", name, unique())
	f, err := root.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	for _, p := range parts {
		if err == nil {
			_, err = f.Write(p)
		}
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = root.Rename(temporary, name)
	}
	if err != nil {
		_ = root.Remove(temporary) // whoever tidies up removes it if this fails
	}
	return err
}
