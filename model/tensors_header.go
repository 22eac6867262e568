package model

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"slices"
	"strconv"
	"unicode/utf8"

	"rankd/internal/dtype"
)

// maxHeaderBytes is the largest JSON header that a safetensors file may have; the format itself sets this bound.
const maxHeaderBytes = 100_000_000

// metadataKey is the one key of the header that is no tensor: a map of strings for people and tools.
const metadataKey = "__metadata__"

var tensorTypes = []struct {
	name  string
	dtype dtype.DType
}{
	{"BOOL", dtype.Bool},
	{"I8", dtype.Int8},
	{"I16", dtype.Int16},
	{"I32", dtype.Int32},
	{"I64", dtype.Int64},
	{"U8", dtype.Uint8},
	{"U16", dtype.Uint16},
	{"U32", dtype.Uint32},
	{"U64", dtype.Uint64},
	{"F16", dtype.Float16},
	{"BF16", dtype.BFloat16},
	{"F32", dtype.Float32},
	{"F64", dtype.Float64},
}

func tensorTypeName(d dtype.DType) (string, bool) {
	for _, t := range tensorTypes {
		if t.dtype == d {
			return t.name, true
		}
	}
	return "", false
}

func parseTensorType(name string) (dtype.DType, error) {
	for _, t := range tensorTypes {
		if t.name == name {
			return t.dtype, nil
		}
	}
	return dtype.Invalid, fmt.Errorf("dtype: got %q, want one of BOOL, I8..I64, U8..U64, F16, BF16, F32, F64", name)
}

// parseHeader reads the JSON header of a file with dataBytes bytes of data. The tensors come back in the order of their data;
// Offset counts from the start of the data and Data is nil.
func parseHeader(header []byte, dataBytes int64) ([]Tensor, error) {
	if !utf8.Valid(header) {
		return nil, errors.New("header: got invalid UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(header))
	dec.UseNumber()
	var list []headerEntry
	err := decodeObject(dec, func(name string) error {
		if name == metadataKey {
			var ignored map[string]string
			if err := dec.Decode(&ignored); err != nil {
				return fmt.Errorf("%s: %w", metadataKey, err)
			}
			return nil
		}
		e, err := decodeEntry(dec)
		if err != nil {
			return fmt.Errorf("tensor %q: %w", name, err)
		}
		e.Name = name
		list = append(list, e)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	end := dec.InputOffset()
	if _, err := dec.Token(); err != io.EOF {
		return nil, fmt.Errorf("header: got data after the object at byte %d", end)
	}
	return placeTensors(list, dataBytes)
}

type headerEntry struct {
	Tensor
	begin, end int64
}

func decodeEntry(dec *json.Decoder) (headerEntry, error) {
	var e headerEntry
	var offsets []int64
	err := decodeObject(dec, func(key string) (err error) {
		switch key {
		case "dtype":
			var name string
			if err := dec.Decode(&name); err != nil {
				return fmt.Errorf("dtype: %w", err)
			}
			e.DType, err = parseTensorType(name)
		case "shape":
			e.Shape, err = decodeSizes(dec)
		case "data_offsets":
			offsets, err = decodeSizes(dec)
		default:
			return fmt.Errorf("unknown field %q", key)
		}
		if err != nil && key != "dtype" {
			err = fmt.Errorf("%s: %w", key, err)
		}
		return err
	})
	switch {
	case err != nil:
		return e, err
	case !e.DType.Valid():
		return e, errors.New("dtype: missing")
	case e.Shape == nil:
		return e, errors.New("shape: missing")
	case len(offsets) != 2:
		return e, fmt.Errorf("data_offsets: got %d numbers, want 2", len(offsets))
	}
	e.begin, e.end = offsets[0], offsets[1]
	want, ok := tensorBytes(e.DType, e.Shape)
	switch {
	case !ok:
		return e, fmt.Errorf("shape %v of %s: size overflows", e.Shape, e.DType)
	case e.end < e.begin || e.end-e.begin != want:
		return e, fmt.Errorf("data_offsets: got [%d, %d], want %d bytes for shape %v of %s", e.begin, e.end, want, e.Shape, e.DType)
	}
	e.Offset = e.begin
	return e, nil
}

// decodeSizes reads an array of non-negative integers. The result is not nil.
func decodeSizes(dec *json.Decoder) ([]int64, error) {
	tok, err := dec.Token()
	if err != nil {
		return nil, err
	}
	if tok != json.Delim('[') {
		return nil, fmt.Errorf("got %v, want an array", tok)
	}
	sizes := []int64{}
	for dec.More() {
		tok, err := dec.Token()
		if err != nil {
			return nil, err
		}
		num, ok := tok.(json.Number)
		if !ok {
			return nil, fmt.Errorf("got %v, want an integer", tok)
		}
		n, err := strconv.ParseInt(string(num), 10, 64)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("got %s, want an integer in [0, 2^63)", num)
		}
		sizes = append(sizes, n)
	}
	_, err = dec.Token() // the closing bracket, or the error
	return sizes, err
}

// decodeObject reads an object and calls value for each key, which must read the value. A key that comes twice is an error.
func decodeObject(dec *json.Decoder, value func(key string) error) error {
	tok, err := dec.Token()
	if err != nil {
		return noEOF(err)
	}
	if tok != json.Delim('{') {
		return fmt.Errorf("got %v, want an object", tok)
	}
	seen := map[string]struct{}{}
	for dec.More() {
		tok, err := dec.Token()
		if err != nil {
			return noEOF(err)
		}
		key, ok := tok.(string)
		if !ok {
			return fmt.Errorf("got %v, want a string key", tok)
		}
		if _, dup := seen[key]; dup {
			return fmt.Errorf("duplicate key %q", key)
		}
		seen[key] = struct{}{}
		if err := value(key); err != nil {
			return noEOF(err)
		}
	}
	_, err = dec.Token()
	return noEOF(err)
}

func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// tensorBytes returns the size of a tensor's data, or false if it does not fit in an int64 (or a shape is negative).
func tensorBytes(d dtype.DType, shape []int64) (int64, bool) {
	n := uint64(d.Size())
	zero := false
	for _, s := range shape {
		if s < 0 {
			return 0, false
		}
		if s == 0 { // decided at the end: [2^62, 2^62, 0] holds nothing, but is no shape to accept either
			zero = true
			continue
		}
		hi, lo := bits.Mul64(n, uint64(s))
		if hi != 0 || lo>>63 != 0 {
			return 0, false
		}
		n = lo
	}
	if zero {
		n = 0
	}
	return int64(n), true
}

// placeTensors checks that the tensors cover the data exactly: from its first byte to its last, without gap or overlap.
func placeTensors(list []headerEntry, dataBytes int64) ([]Tensor, error) {
	slices.SortStableFunc(list, func(a, b headerEntry) int {
		return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.end, b.end))
	})
	tensors := make([]Tensor, len(list))
	at := int64(0)
	for i, e := range list {
		if e.begin != at {
			return nil, fmt.Errorf("header: tensor %q: data_offsets: got a start of %d, want %d (no gaps, no overlaps)", e.Name, e.begin, at)
		}
		at = e.end
		tensors[i] = e.Tensor
	}
	if at != dataBytes {
		what := "has more than that"
		if dataBytes < at {
			what = "is cut off"
		}
		return nil, fmt.Errorf("header: got %d bytes of data, want %d, which the tensors cover: the file %s", dataBytes, at, what)
	}
	return tensors, nil
}
