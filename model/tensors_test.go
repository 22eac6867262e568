package model

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"rankd/internal/dtype"
)

// rawFile is a safetensors file with the given header text and data bytes of zeros.
func rawFile(header string, data int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	b = append(b, header...)
	return append(b, make([]byte, data)...)
}

func openBytes(t *testing.T, b []byte) (*Tensors, error) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "x.safetensors")
	if err := os.WriteFile(name, b, 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := OpenTensors(name)
	if err == nil {
		t.Cleanup(func() {
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	return f, err
}

func TestTensorsRoundTripEveryType(t *testing.T) {
	var list []NamedTensor
	for _, x := range tensorTypes {
		n := 6 * x.dtype.Size()
		data := make([]byte, n)
		for i := range data {
			data[i] = byte(len(list)*17 + i)
		}
		list = append(list, NamedTensor{Name: "of \"" + x.name + "\"", DType: x.dtype, Shape: []int64{2, 3}, Data: data})
	}
	list = append(list,
		NamedTensor{Name: "scalar", DType: dtype.Float32, Data: []byte{1, 2, 3, 4}},
		NamedTensor{Name: "empty", DType: dtype.Int64, Shape: []int64{0, 7}},
		NamedTensor{Name: "streamed", DType: dtype.Uint8, Shape: []int64{5}, Fill: func(w io.Writer) error {
			for i := range 5 {
				if _, err := w.Write([]byte{byte(i)}); err != nil {
					return err
				}
			}
			return nil
		}})
	name := filepath.Join(t.TempDir(), "x.safetensors")
	if err := WriteTensors(name, list); err != nil {
		t.Fatal(err)
	}
	f, err := OpenTensors(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	file, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	list[len(list)-1].Data = []byte{0, 1, 2, 3, 4}
	for i, want := range list {
		got, ok := f.Tensor(want.Name)
		if !ok {
			t.Fatalf("tensor %q: got none", want.Name)
		}
		if f.Names()[i] != want.Name || got.Name != want.Name || got.DType != want.DType ||
			!slices.Equal(got.Shape, want.Shape) || !bytes.Equal(got.Data, want.Data) {
			t.Errorf("tensor %d: got %+v, want %+v", i, got, want)
		}
		if n := got.Elements(); n != int64(len(want.Data)/want.DType.Size()) {
			t.Errorf("tensor %q: got %d elements", want.Name, n)
		}
		if !bytes.Equal(file[got.Offset:][:len(got.Data)], got.Data) {
			t.Errorf("tensor %q: offset %d is not where its data lies", want.Name, got.Offset)
		}
		if cap(got.Data) != len(got.Data) {
			t.Errorf("tensor %q: an append would write into its neighbour", want.Name)
		}
	}
	if first, _ := f.Tensor(list[0].Name); first.Offset%dataAlign != 0 {
		t.Errorf("data starts at %d, want a multiple of %d", first.Offset, dataAlign)
	}
	if left, err := os.ReadDir(filepath.Dir(name)); err != nil || len(left) != 1 {
		t.Errorf("directory: got %v, %v, want the file alone", left, err)
	}
}

func TestTensorsRefuseBrokenFiles(t *testing.T) {
	const ok = `{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}`
	for _, c := range []struct {
		name string
		file []byte
		want string
	}{
		{"shorter than the length word", []byte("1234567"), "file size: got 7 bytes, want at least 8"},
		{"header beyond the file", binary.LittleEndian.AppendUint64(nil, 1), "header length: got 1 bytes, want at most 0"},
		{"header length that overflows", append(binary.LittleEndian.AppendUint64(nil, 1<<63), "{}"...), "header length: got 9223372036854775808 bytes, want at most 2"},
		{"no object", rawFile("[]", 0), "header: got [, want an object"},
		{"empty header", rawFile("", 0), "header: unexpected EOF"},
		{"cut short", rawFile(ok, 8), "header: unexpected EOF"},
		{"invalid UTF-8", rawFile("{\"\xff\":1}", 0), "header: got invalid UTF-8"},
		{"data after the object", rawFile(ok+"}{}", 8), "header: got data after the object at byte 54"},
		{"duplicate tensor", rawFile(ok+`,"a":{"dtype":"F32","shape":[0],"data_offsets":[8,8]}}`, 8), `header: duplicate key "a"`},
		{"duplicate field", rawFile(`{"a":{"dtype":"F32","dtype":"F16","shape":[2],"data_offsets":[0,8]}}`, 8), `header: tensor "a": duplicate key "dtype"`},
		{"unknown field", rawFile(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1}}`, 8), `header: tensor "a": unknown field "x"`},
		{"unknown type", rawFile(`{"a":{"dtype":"F8_E4M3","shape":[2],"data_offsets":[0,2]}}`, 2), `header: tensor "a": dtype: got "F8_E4M3", want one of BOOL, I8..I64, U8..U64, F16, BF16, F32, F64`},
		{"no type", rawFile(`{"a":{"shape":[2],"data_offsets":[0,8]}}`, 8), `header: tensor "a": dtype: missing`},
		{"no shape", rawFile(`{"a":{"dtype":"F32","data_offsets":[0,4]}}`, 4), `header: tensor "a": shape: missing`},
		{"no offsets", rawFile(`{"a":{"dtype":"F32","shape":[1]}}`, 4), `header: tensor "a": data_offsets: got 0 numbers, want 2`},
		{"fraction", rawFile(`{"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,8]}}`, 8), `header: tensor "a": shape: got 1.5, want an integer in [0, 2^63)`},
		{"negative", rawFile(`{"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}}`, 8), `header: tensor "a": shape: got -2, want an integer in [0, 2^63)`},
		{"null shape", rawFile(`{"a":{"dtype":"F32","shape":null,"data_offsets":[0,4]}}`, 4), `header: tensor "a": shape: got <nil>, want an array`},
		{"size that overflows", rawFile(`{"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}}`, 0), `header: tensor "a": shape [4611686018427387904 4] of float32: size overflows`},
		{"size that overflows before a zero", rawFile(`{"a":{"dtype":"F32","shape":[4611686018427387904,4,0],"data_offsets":[0,0]}}`, 0), `header: tensor "a": shape [4611686018427387904 4 0] of float32: size overflows`},
		{"size against offsets", rawFile(`{"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}}`, 8), `header: tensor "a": data_offsets: got [0, 8], want 12 bytes for shape [3] of float32`},
		{"end before start", rawFile(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}}`, 8), `header: tensor "a": data_offsets: got [8, 0], want 8 bytes for shape [2] of float32`},
		{"gap", rawFile(ok+`,"b":{"dtype":"F32","shape":[1],"data_offsets":[12,16]}}`, 16), `header: tensor "b": data_offsets: got a start of 12, want 8 (no gaps, no overlaps)`},
		{"overlap", rawFile(ok+`,"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}`, 8), `header: tensor "b": data_offsets: got a start of 4, want 8 (no gaps, no overlaps)`},
		{"data beyond the tensors", rawFile(ok+"}", 9), "header: got 9 bytes of data, want 8, which the tensors cover: the file has more than that"},
		{"data cut short", rawFile(ok+"}", 7), "header: got 7 bytes of data, want 8, which the tensors cover: the file is cut off"},
		{"metadata of numbers", rawFile(`{"__metadata__":{"a":1}}`, 0), "header: __metadata__: json: cannot unmarshal number into Go value of type string"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := openBytes(t, c.file)
			if err == nil {
				t.Fatalf("I5: got no error, want %q", c.want)
			}
			if got := err.Error(); !strings.HasPrefix(got, "open tensors ") || !strings.HasSuffix(got, `x.safetensors": `+c.want) {
				t.Errorf("error: got %q, want %q", got, c.want)
			}
		})
	}
}

func TestTensorsTakeForeignFiles(t *testing.T) {
	// Metadata, padding, any order of keys, several empty tensors at one place.
	f, err := openBytes(t, rawFile(`{"__metadata__":{"format":"pt"},"b":{"shape":[1],"data_offsets":[8,12],"dtype":"I32"},`+
		`"e":{"dtype":"F64","shape":[0],"data_offsets":[8,8]},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}   `, 12))
	if err != nil {
		t.Fatal(err)
	}
	if got := f.Names(); !slices.Equal(got, []string{"a", "e", "b"}) {
		t.Errorf("names: got %q", got)
	}
	if _, ok := f.Tensor("__metadata__"); ok {
		t.Error("metadata is no tensor")
	}
	if f, err = openBytes(t, rawFile("{}", 0)); err != nil || len(f.Names()) != 0 {
		t.Errorf("file without tensors: got %v, %v", f, err)
	}
}

func TestWantNamesTheDifference(t *testing.T) {
	f, err := openBytes(t, rawFile(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`, 8))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Want("a", dtype.Float32, 2); err != nil {
		t.Error(err)
	}
	for _, c := range []struct {
		name  string
		dtype dtype.DType
		shape []int64
		want  string
	}{
		{"b", dtype.Float32, []int64{2}, ": got none"},
		{"a", dtype.Int32, []int64{2}, ": got dtype float32, want int32"},
		{"a", dtype.Float32, []int64{2, 1}, ": got shape [2], want [2 1]"},
		{"a", dtype.Float32, []int64{3}, ": got shape [2], want [3]"},
	} {
		if _, err := f.Want(c.name, c.dtype, c.shape...); err == nil || !strings.HasSuffix(err.Error(), c.want) {
			t.Errorf("Want(%q, %s, %v): got %v, want ...%q", c.name, c.dtype, c.shape, err, c.want)
		}
	}
}

func TestWriteTensorsRefuses(t *testing.T) {
	boom := errors.New("boom")
	fill := func(n int, err error) func(io.Writer) error {
		return func(w io.Writer) error {
			if _, werr := w.Write(make([]byte, n)); werr != nil {
				return werr
			}
			return err
		}
	}
	one := []int64{1}
	for _, c := range []struct {
		name string
		list []NamedTensor
		want string
	}{
		{"too few bytes", []NamedTensor{{Name: "a", DType: dtype.Float32, Shape: one, Fill: fill(3, nil)}}, `tensor "a": got 3 bytes, want 4 for shape [1] of float32`},
		{"too many bytes", []NamedTensor{{Name: "a", DType: dtype.Float32, Shape: one, Fill: fill(5, nil)}}, `tensor "a": got 1 bytes too many`},
		{"wrong data", []NamedTensor{{Name: "a", DType: dtype.Float32, Shape: one, Data: []byte{1}}}, `tensor "a": got 1 bytes, want 4 for shape [1] of float32`},
		{"failing source", []NamedTensor{{Name: "a", DType: dtype.Float32, Shape: one, Fill: fill(4, boom)}}, `tensor "a": boom`},
		{"duplicate", []NamedTensor{{Name: "a", DType: dtype.Uint8}, {Name: "a", DType: dtype.Uint8}}, `tensor "a": name: want a unique name in UTF-8 other than "__metadata__"`},
		{"reserved", []NamedTensor{{Name: "__metadata__", DType: dtype.Uint8}}, `tensor "__metadata__": name: want a unique name in UTF-8 other than "__metadata__"`},
		{"invalid type", []NamedTensor{{Name: "a"}}, `tensor "a": dtype: got invalid, which a safetensors file cannot hold`},
		{"overflow", []NamedTensor{{Name: "a", DType: dtype.Float32, Shape: []int64{1 << 62, 2}}}, `tensor "a": shape [4611686018427387904 2] of float32: size overflows`},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			err := WriteTensors(filepath.Join(dir, "x"), c.list)
			if err == nil || !strings.HasSuffix(err.Error(), `x": `+c.want) {
				t.Errorf("error: got %v, want %q", err, c.want)
			}
			if left, _ := os.ReadDir(dir); len(left) != 0 {
				t.Errorf("directory: got %v, want nothing left", left)
			}
		})
	}
}

func FuzzTensors(f *testing.F) {
	f.Add(rawFile(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"U8","shape":[],"data_offsets":[8,9]}}`, 9))
	f.Add(rawFile(`{"__metadata__":{"x":"y"}}  `, 0))
	f.Add(rawFile(`{"a":{"dtype":"F64","shape":[9223372036854775807,9],"data_offsets":[0,0]}}`, 0))
	f.Add([]byte("12345678"))
	f.Fuzz(func(t *testing.T, file []byte) {
		if len(file) < 8 {
			return
		}
		list, err := readTensors(bytes.NewReader(file), int64(len(file)))
		if err != nil {
			return
		}
		// I5: every accepted tensor lies in the file, exactly as long as its shape says, one after the other.
		var again []NamedTensor
		for i, x := range list {
			n, ok := tensorBytes(x.DType, x.Shape)
			if !ok || x.Offset < 8 || x.Offset > int64(len(file)) || n > int64(len(file))-x.Offset {
				t.Fatalf("tensor %+v lies outside a file of %d bytes", x, len(file))
			}
			if i > 0 && x.Offset < list[i-1].Offset {
				t.Fatalf("tensor %+v lies before %+v", x, list[i-1])
			}
			again = append(again, NamedTensor{Name: x.Name, DType: x.DType, Shape: x.Shape, Data: file[x.Offset:][:n]})
		}
		var out bytes.Buffer
		if err := EncodeTensors(&out, again); err != nil {
			t.Fatalf("encode what was decoded: %v", err)
		}
		back, err := readTensors(bytes.NewReader(out.Bytes()), int64(out.Len()))
		if err != nil || len(back) != len(list) {
			t.Fatalf("decode what was encoded: got %d tensors, %v, want %d", len(back), err, len(list))
		}
	})
}
