package predict

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rankd/client"
	"rankd/internal/testutil"
)

func TestMain(m *testing.M) { testutil.Main(m) }

func smallSchema() *Schema {
	return &Schema{
		Tables: []Table{{Name: "user", Hot: 1, Rows: 100}, {Name: "clicks", Rows: 100}},
		Dense:  []Dense{{Name: "dense", Width: 2}},
	}
}

func textSource(s *Schema, text string, parse func([]byte, *rows) error) Source {
	return newLines("f", io.NopCloser(strings.NewReader(text)), s, parse)
}

func find(t *testing.T, b *Batch, name string) client.Tensor {
	t.Helper()
	for _, x := range b.Tensors {
		if x.Name == name {
			return x
		}
	}
	t.Fatalf("the batch has no tensor %q", name)
	return client.Tensor{}
}

func int64s(data []byte) (v []int64) {
	for i := 0; i < len(data); i += 8 {
		v = append(v, int64(binary.LittleEndian.Uint64(data[i:])))
	}
	return v
}

func int32s(data []byte) (v []int32) {
	for i := 0; i < len(data); i += 4 {
		v = append(v, int32(binary.LittleEndian.Uint32(data[i:])))
	}
	return v
}

func float32s(data []byte) (v []float32) {
	for _, x := range int32s(data) {
		v = append(v, math.Float32frombits(uint32(x)))
	}
	return v
}

func want[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func TestJSONLinesAreReadInBatches(t *testing.T) {
	text := `{"dense":[0.5,1],"user":[7],"clicks":[1,2,3]}` + "\n\n" + `{"user":8,"clicks":[],"dense":[2,3e1]}` + "\n" + `{"user":9,"clicks":4,"dense":[0,0]}`
	s := smallSchema()
	source := textSource(s, text, newJSONParser(s).parse)
	b, err := source.Next(2)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "user", int64s(find(t, b, "user").Data), []int64{7, 8})
	want(t, "values", int64s(find(t, b, "clicks.values").Data), []int64{1, 2, 3})
	want(t, "lengths", int32s(find(t, b, "clicks.lengths").Data), []int32{3, 0})
	want(t, "dense", float32s(find(t, b, "dense").Data), []float32{0.5, 1, 2, 30})
	want(t, "shape", find(t, b, "dense").Shape, []int64{2, 2})
	b, err = source.Next(2)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "first", b.First, int64(2))
	want(t, "rows", b.Rows, 1)
	if _, err := source.Next(2); !errors.Is(err, io.EOF) {
		t.Errorf("got %v after the last row, want io.EOF", err)
	}
}

func TestBadJSONLineIsNamedAfterTheRowsBeforeIt(t *testing.T) {
	const good = `{"user":1,"clicks":[2],"dense":[0,0]}`
	for _, c := range []struct {
		name, line string
		words      []string
	}{
		{"broken", `{"user":1,`, []string{"line 2", "column", "ends"}},
		{"no object", `[1]`, []string{"line 2", "column 1", "[", "{"}},
		{"unknown field", `{"usr":1}`, []string{`"usr"`, `"user"`}},
		{"field twice", `{"user":1,"user":2}`, []string{`"user"`, "twice"}},
		{"missing field", `{"user":1,"dense":[0,0]}`, []string{`"clicks"`}},
		{"too few ids", `{"user":[],"clicks":[2],"dense":[0,0]}`, []string{`"user"`, "got 0", "want 1"}},
		{"too many numbers", `{"dense":[0,0,0],"user":1,"clicks":[2]}`, []string{`"dense"`, "got 3", "want 2"}},
		{"fraction as id", `{"user":1.5,"clicks":[2],"dense":[0,0]}`, []string{`"user"`, "1.5", "integer"}},
		{"id beyond int64", `{"user":9223372036854775808,"clicks":[2],"dense":[0,0]}`, []string{`"user"`, "9223372036854775808"}},
		{"string", `{"user":"1","clicks":[2],"dense":[0,0]}`, []string{`"user"`, "numbers"}},
		{"null", `{"user":null,"clicks":[2],"dense":[0,0]}`, []string{`"user"`, "numbers"}},
		{"nested", `{"user":[[1]],"clicks":[2],"dense":[0,0]}`, []string{`"user"`, "numbers"}},
		{"number beyond float32", `{"user":1,"clicks":[2],"dense":[0,1e39]}`, []string{`"dense"`, "1e39"}},
		{"text after it", good + "x", []string{"column", "end of the line"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := smallSchema()
			source := textSource(s, good+"\n"+c.line+"\n"+good, newJSONParser(s).parse)
			b, err := source.Next(10)
			if err != nil || b.Rows != 1 {
				t.Fatalf("got %v %v, want the row before the bad line", b, err)
			}
			want(t, "values", int64s(find(t, b, "clicks.values").Data), []int64{2})
			_, err = source.Next(10)
			if err == nil || !strings.Contains(err.Error(), "read f line 2") {
				t.Fatalf("got %v, want an error in line 2 of f", err)
			}
			for _, w := range c.words {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("error %q does not say %q", err, w)
				}
			}
		})
	}
}

func criteoSchema(hot int) *Schema {
	s := &Schema{Dense: []Dense{{Name: "dense", Width: 13}}}
	for i := range 26 {
		s.Tables = append(s.Tables, Table{Name: fmt.Sprintf("cat_%d", i), Hot: hot, Rows: 1000})
	}
	return s
}

func criteoLine(label string, ints, ids []string) string {
	return label + "\t" + strings.Join(ints, "\t") + "\t" + strings.Join(ids, "\t")
}

func repeat(s string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = s
	}
	return out
}

func TestCriteoColumnsBecomeInputs(t *testing.T) {
	ints, ids := repeat("3", 13), repeat("3e9", 26) // 0x3e9 = 1001
	ints[0], ints[1], ids[25] = "", "-2", ""
	s := criteoSchema(3)
	source := textSource(s, criteoLine("1", ints, ids)+"\r\n"+criteoLine("0", ints, ids), parseCriteo)
	b, err := source.Next(5)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "rows", b.Rows, 2)
	d := float32s(find(t, b, "dense").Data)
	want(t, "dense", d[:3], []float32{0, 0, float32(math.Log1p(3))})
	want(t, "cat_0", int64s(find(t, b, "cat_0").Data)[:3], []int64{1, (1 + 7919) % 1000, (1 + 2*7919) % 1000})
	want(t, "cat_25", int64s(find(t, b, "cat_25").Data)[:3], []int64{0, 919, 838})
	want(t, "shape", find(t, b, "cat_0").Shape, []int64{2, 3})
}

func TestBadCriteoLineIsNamed(t *testing.T) {
	good := func() (ints, ids []string) { return repeat("1", 13), repeat("a", 26) }
	ints, ids := good()
	badInt, _ := good()
	badInt[4] = "x7"
	_, badID := good()
	badID[2] = "xyz"
	_, longID := good()
	longID[0] = "11112222333344445"
	for _, c := range []struct {
		line  string
		words []string
	}{
		{criteoLine("2", ints, ids), []string{"column 1", `"2"`, "0 or 1"}},
		{criteoLine("", ints, ids), []string{"column 1", `""`}},
		{criteoLine("1", badInt, ids), []string{"column 6", `"x7"`, "integer"}},
		{criteoLine("1", ints, badID), []string{"column 17", `"xyz"`, "hexadecimal"}},
		{criteoLine("1", ints, longID), []string{"column 15", "hexadecimal"}},
		{criteoLine("1", ints, ids[1:]), []string{"39 columns", "want 40"}},
		{criteoLine("1", ints, append(ids, "b")), []string{"41 columns", "want 40"}},
		{strings.ReplaceAll(criteoLine("1", ints, ids), "\t", ","), []string{"1 columns", "want 40"}},
	} {
		_, err := textSource(criteoSchema(1), c.line, parseCriteo).Next(1)
		if err == nil || !strings.Contains(err.Error(), "read f line 1") {
			t.Errorf("line %.30q...: got %v, want an error in line 1", c.line, err)
			continue
		}
		for _, w := range c.words {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("error %q does not say %q", err, w)
			}
		}
	}
	unknown := criteoSchema(1)
	unknown.Tables[3].Rows = 0
	if err := fitsCriteo(unknown); err == nil || !strings.Contains(err.Error(), "--model") {
		t.Errorf("got %v, want an error that asks for --model", err)
	}
	if err := fitsCriteo(smallSchema()); err == nil {
		t.Error("a model of two tables was taken for a Criteo file")
	}
}

// npy is an array file of version 1 as NumPy writes it.
func npy(descr, fortran, shape string, data []byte) []byte {
	header := fmt.Sprintf("{'descr': '%s', 'fortran_order': %s, 'shape': (%s), }", descr, fortran, shape)
	header += strings.Repeat(" ", 63-(len(header)+10)%64) + "\n"
	out := append([]byte("\x93NUMPY\x01\x00"), byte(len(header)), byte(len(header)>>8))
	return append(append(out, header...), data...)
}

func npz(t *testing.T, files map[string][]byte) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "f.npz")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z := zip.NewWriter(f)
	for n, data := range files {
		w, err := z.Create(n)
		if err == nil {
			_, err = w.Write(data)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return name
}

func raw(v ...any) []byte {
	var b bytes.Buffer
	for _, x := range v {
		_ = binary.Write(&b, binary.LittleEndian, x)
	}
	return b.Bytes()
}

func TestNPZIsReadAndSliced(t *testing.T) {
	name := npz(t, map[string][]byte{
		"user.npy":           npy("<i8", "False", "3, 1", raw([]int64{7, 8, 9})),
		"clicks.values.npy":  npy("<i4", "False", "4,", raw([]int32{1, 2, 3, 4})),
		"clicks.offsets.npy": npy("<i8", "False", "4,", raw([]int64{0, 1, 1, 4})),
		"clicks.weights.npy": npy("<f4", "False", "4,", raw([]float32{.1, .2, .3, .4})),
		"dense.npy":          npy("<f8", "False", "3, 2", raw([]float64{1, 2, 3, 4, 5, 6})),
		"expect.score.npy":   npy("<f4", "False", "3,", raw([]float32{10, 20, 30})),
	})
	source, err := OpenNPZ(name)
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	if _, err := source.Next(1); err != nil {
		t.Fatal(err)
	}
	b, err := source.Next(10)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "rows", b.Rows, 2)
	want(t, "user", int64s(find(t, b, "user").Data), []int64{8, 9})
	want(t, "values", int32s(find(t, b, "clicks.values").Data), []int32{2, 3, 4})
	want(t, "lengths", int32s(find(t, b, "clicks.lengths").Data), []int32{0, 3})
	want(t, "weights", float32s(find(t, b, "clicks.weights").Data), []float32{.2, .3, .4})
	want(t, "dense", find(t, b, "dense").Shape, []int64{2, 2})
	want(t, "expect", b.Expect["score"], []float32{20, 30})
	if _, err := source.Next(10); !errors.Is(err, io.EOF) {
		t.Errorf("got %v after the last row, want io.EOF", err)
	}
}

func TestBadNPZIsNamed(t *testing.T) {
	good := npy("<i8", "False", "2, 1", raw([]int64{1, 2}))
	cases := map[string]struct {
		files map[string][]byte
		words []string
	}{
		"not an array":     {map[string][]byte{"a.npy": []byte("hello world")}, []string{`"a"`, "hello"}},
		"other member":     {map[string][]byte{"a.txt": []byte("x")}, []string{`"a.txt"`, ".npy"}},
		"version 9":        {map[string][]byte{"a.npy": append([]byte("\x93NUMPY\x09\x00"), good[8:]...)}, []string{"9.0", "want 1, 2 or 3"}},
		"fortran order":    {map[string][]byte{"a.npy": npy("<f4", "True", "1, 1", raw(float32(1)))}, []string{"Fortran"}},
		"big endian":       {map[string][]byte{"a.npy": npy(">f4", "False", "1, 1", raw(float32(1)))}, []string{`">f4"`, "<f4"}},
		"objects":          {map[string][]byte{"a.npy": npy("|O", "False", "1,", []byte("x"))}, []string{`"|O"`}},
		"short data":       {map[string][]byte{"a.npy": npy("<i8", "False", "3, 1", raw([]int64{1, 2}))}, []string{"16 bytes", "want 24"}},
		"long data":        {map[string][]byte{"a.npy": npy("<i8", "False", "1, 1", raw([]int64{1, 2}))}, []string{"16 bytes", "want 8"}},
		"negative shape":   {map[string][]byte{"a.npy": npy("<i8", "False", "-1, 1", nil)}, []string{`"-1"`}},
		"shape overflows":  {map[string][]byte{"a.npy": npy("<i8", "False", "4294967296, 4294967296", nil)}, []string{"4294967296"}},
		"header is code":   {map[string][]byte{"a.npy": append([]byte("\x93NUMPY\x01\x00\x05\x00"), "exit("...)}, []string{"exit("}},
		"huge header":      {map[string][]byte{"a.npy": []byte("\x93NUMPY\x02\x00\xff\xff\xff\xff")}, []string{"4294967295", "65536"}},
		"scalar":           {map[string][]byte{"a.npy": npy("<i8", "False", "", raw(int64(1)))}, []string{"single value"}},
		"rows differ":      {map[string][]byte{"a.npy": good, "b.npy": npy("<i8", "False", "1, 1", raw(int64(1)))}, []string{"rows"}},
		"empty":            {map[string][]byte{}, []string{"no arrays"}},
		"values alone":     {map[string][]byte{"c.values.npy": npy("<i8", "False", "2,", raw([]int64{1, 2}))}, []string{`"c.lengths"`, `"c.offsets"`}},
		"lengths alone":    {map[string][]byte{"c.lengths.npy": npy("<i4", "False", "2,", raw([]int32{1, 2}))}, []string{`"c.values"`}},
		"lengths too long": {map[string][]byte{"c.values.npy": npy("<i8", "False", "2,", raw([]int64{1, 2})), "c.lengths.npy": npy("<i4", "False", "2,", raw([]int32{1, 2}))}, []string{"row 1 is 2", "0 to 1"}},
		"lengths of float": {map[string][]byte{"c.values.npy": npy("<i8", "False", "1,", raw([]int64{1})), "c.lengths.npy": npy("<f4", "False", "1,", raw(float32(1)))}, []string{"float32", "int32"}},
		"offsets fall":     {map[string][]byte{"c.values.npy": npy("<i8", "False", "2,", raw([]int64{1, 2})), "c.offsets.npy": npy("<i8", "False", "4,", raw([]int64{0, 2, 1, 2}))}, []string{"falls from 2 to 1"}},
		"no offsets":       {map[string][]byte{"c.values.npy": npy("<i8", "False", "0,", nil), "c.offsets.npy": npy("<i8", "False", "0,", nil)}, []string{"-1 rows"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			file := npz(t, c.files)
			_, err := OpenNPZ(file)
			if err == nil || !strings.Contains(err.Error(), file) {
				t.Fatalf("got %v, want an error that names the file", err)
			}
			for _, w := range c.words {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("error %q does not say %q", err, w)
				}
			}
		})
	}
	if _, err := OpenNPZ(filepath.Join(t.TempDir(), "none.npz")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want that the file does not exist", err)
	}
}

func FuzzReadNPY(f *testing.F) {
	f.Add(npy("<i8", "False", "2, 1", raw([]int64{1, 2})))
	f.Add([]byte("\x93NUMPY\x01\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := readNPY(bytes.NewReader(b), uint64(len(b)))
		if err != nil {
			return
		}
		if n, err := arrayBytes(a.dtype, a.shape); err != nil || n != uint64(len(a.data)) {
			t.Errorf("got %d bytes for %v %v", len(a.data), a.dtype, a.shape)
		}
	})
}
