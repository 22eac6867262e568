package predict

import (
	"archive/zip"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"regexp"
	"strconv"
	"strings"

	"rankd/internal/dtype"
)

// array is one array of an .npz file, or one tensor of a safetensors file.
type array struct {
	name  string
	dtype dtype.DType
	shape []int64
	data  []byte
}

// Bounds of what is read: the header of an array, and the bytes of all arrays of a file.
const (
	maxNPYHeader = 64 << 10
	maxNPZBytes  = 16 << 30
)

// readNPZ reads every array of a zip archive of .npy files.
func readNPZ(name string) ([]array, error) {
	z, err := zip.OpenReader(name)
	if errors.Is(err, zip.ErrFormat) {
		return nil, fmt.Errorf("open examples %s: %w, want an archive of arrays as numpy.savez writes it", name, err)
	}
	if err != nil {
		return nil, fmt.Errorf("open examples %s: %w", name, err)
	}
	defer z.Close()
	var all []array
	var total uint64
	for _, f := range z.File {
		inner, ok := strings.CutSuffix(f.Name, ".npy")
		if !ok {
			return nil, fmt.Errorf("read %s: got member %q, want .npy arrays only", name, f.Name)
		}
		if total += f.UncompressedSize64; f.UncompressedSize64 > maxNPZBytes || total > maxNPZBytes {
			return nil, fmt.Errorf("read %s: its arrays have more than %d bytes, want less", name, int64(maxNPZBytes))
		}
		r, err := f.Open()
		if err != nil {
			return nil, fmt.Errorf("read %s array %q: %w", name, inner, err)
		}
		a, err := readNPY(r, f.UncompressedSize64)
		err = errors.Join(err, r.Close())
		if err != nil {
			return nil, fmt.Errorf("read %s array %q: %w", name, inner, err)
		}
		a.name = inner
		all = append(all, a)
	}
	return all, nil
}

// readNPY reads one array of size bytes in all: magic, version, header, data, and nothing more.
func readNPY(r io.Reader, size uint64) (array, error) {
	var head [8]byte
	if _, err := io.ReadFull(r, head[:]); err != nil || string(head[:6]) != "\x93NUMPY" {
		return array{}, fmt.Errorf("got a file that begins with %q, want %q", head[:6], "\x93NUMPY")
	}
	width := 4
	switch head[6] {
	case 1:
		width = 2
	case 2, 3:
	default:
		return array{}, fmt.Errorf("got format version %d.%d, want 1, 2 or 3", head[6], head[7])
	}
	var length [4]byte
	if _, err := io.ReadFull(r, length[:width]); err != nil {
		return array{}, fmt.Errorf("read header length: %w", err)
	}
	n := binary.LittleEndian.Uint32(length[:]) // the upper half is zero in version 1
	if n > maxNPYHeader {
		return array{}, fmt.Errorf("got a header of %d bytes, want at most %d", n, maxNPYHeader)
	}
	header := make([]byte, n)
	if _, err := io.ReadFull(r, header); err != nil {
		return array{}, fmt.Errorf("read header: %w", err)
	}
	a, err := parseNPYHeader(string(header))
	if err != nil {
		return array{}, err
	}
	want, err := arrayBytes(a.dtype, a.shape)
	if err != nil {
		return array{}, err
	}
	before := uint64(len(head)) + uint64(width) + uint64(n)
	if before+want != size {
		return array{}, fmt.Errorf("got %d bytes of data, want %d for %s %v", int64(size)-int64(before), want, a.dtype, a.shape)
	}
	a.data = make([]byte, want)
	if _, err := io.ReadFull(r, a.data); err != nil {
		return array{}, fmt.Errorf("read data: %w", err)
	}
	var end [1]byte
	if _, err := r.Read(end[:]); !errors.Is(err, io.EOF) { // also where the archive's checksum is compared
		return array{}, fmt.Errorf("read data: got %w after it, want the end", cmp.Or(err, errors.New("more bytes")))
	}
	return a, nil
}

// npyHeader is the one form that NumPy writes; another order of the keys is legal but nobody's.
var npyHeader = regexp.MustCompile(`^\{\s*'descr':\s*'([^']*)',\s*'fortran_order':\s*(True|False),\s*'shape':\s*\(([^)]*)\),?\s*\}\s*$`)

var npyTypes = map[string]dtype.DType{"<i4": dtype.Int32, "<i8": dtype.Int64, "<f4": dtype.Float32, "<f8": dtype.Float64}

func parseNPYHeader(header string) (array, error) {
	m := npyHeader.FindStringSubmatch(header)
	if m == nil {
		return array{}, fmt.Errorf("got header %.100q, want {'descr': ..., 'fortran_order': ..., 'shape': (...), }", header)
	}
	d, ok := npyTypes[m[1]]
	if !ok {
		return array{}, fmt.Errorf("got type %q, want <i4, <i8, <f4 or <f8", m[1])
	}
	if m[2] == "True" {
		return array{}, errors.New("got Fortran order, want C order (numpy.ascontiguousarray makes it)")
	}
	a := array{dtype: d, shape: []int64{}}
	for dim := range strings.SplitSeq(m[3], ",") {
		if dim = strings.TrimSpace(dim); dim == "" {
			continue // the comma after a single dimension
		}
		n, err := strconv.ParseInt(dim, 10, 64)
		if err != nil || n < 0 {
			return array{}, fmt.Errorf("got dimension %q, want a number of 0 or more", dim)
		}
		a.shape = append(a.shape, n)
	}
	return a, nil
}

// arrayBytes is the size of an array, computed without overflow.
func arrayBytes(d dtype.DType, shape []int64) (uint64, error) {
	total := uint64(d.Size())
	for _, n := range shape {
		hi, lo := bits.Mul64(total, uint64(n))
		if hi != 0 || lo > math.MaxInt64 {
			return 0, fmt.Errorf("got shape %v, want one of less than 2^63 bytes", shape)
		}
		total = lo
	}
	return total, nil
}
