package model

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"rankd/internal/dtype"
)

// validManifest is a small model with every feature: a ragged table, two outputs, weights, two buckets.
func validManifest() *Manifest {
	packed := 0
	digest := digestPrefix + strings.Repeat("0a", 32)
	m := &Manifest{
		FormatVersion: FormatVersion,
		Name:          "m",
		Version:       "7",
		Tables: []Table{
			{Name: "user", Rows: 10, Dim: 8, Hotness: 2, Combiner: CombinerSum, IDPolicy: PolicyReject, RowDType: dtype.Float32, File: "tables/a", Tensor: "rows"},
			{Name: "item", Rows: 20, Dim: 16, Hotness: 0, Combiner: CombinerMean, IDPolicy: PolicyClamp, RowDType: dtype.Float32, File: "tables/b", Tensor: "rows"},
		},
		Dense:    []Dense{{Name: "dense", Width: 3, DType: dtype.Float32}},
		Outputs:  []Output{{Name: "click", Column: 0}, {Name: "heads", Width: 2, Column: 1}},
		MaxBatch: 4,
		Buckets:  []int{1, 4},
		Program: Program{
			Weights: "weights",
			Inputs:  []ProgramInput{{Weight: "w"}, {Packed: &packed}},
			Files:   []ProgramFile{{Batch: 0, File: "program"}},
		},
		Digests: map[string]string{"tables/a": digest, "tables/b": digest, "weights": digest, "program": digest},
	}
	m.AssignSlots(dtype.Float32)
	return m
}

func TestAssignSlotsFollowsTheLayoutRules(t *testing.T) {
	m := validManifest()
	// 8 float32 at 0, 16 at the next 64-byte line, 3 dense ones after that line's end.
	got := []Slot{m.Tables[0].Slot, m.Tables[1].Slot, m.Dense[0].Slot}
	if want := []Slot{{0, 0}, {0, 64}, {0, 128}}; !reflect.DeepEqual(got, want) {
		t.Errorf("slots: got %v, want %v", got, want)
	}
	if want := (PackedArray{dtype.Float32, 192}); m.Packed[0] != want {
		t.Errorf("packed: got %v, want %v", m.Packed[0], want)
	}
	if m.ScoreColumns() != 3 || m.ScoreBytes() != 12 {
		t.Errorf("score: got %d columns, %d bytes, want 3, 12", m.ScoreColumns(), m.ScoreBytes())
	}
	if n, ok := m.IDColumns(); ok {
		t.Errorf("id columns of a model with a ragged table: got %d", n)
	}
	m.Tables[1].Hotness = 5
	if n, ok := m.IDColumns(); !ok || n != 7 {
		t.Errorf("id columns: got %d, %v, want 7", n, ok)
	}
}

func TestPooledVectorsOfTwoBytesHaveAnArrayOfTheirOwn(t *testing.T) {
	m := validManifest()
	m.AssignSlots(dtype.BFloat16)
	// 8 elements at 0, 16 at the next 64-byte line; dense features start the second array.
	got := []Slot{m.Tables[0].Slot, m.Tables[1].Slot, m.Dense[0].Slot}
	if want := []Slot{{0, 0}, {0, 64}, {1, 0}}; !reflect.DeepEqual(got, want) {
		t.Errorf("slots: got %v, want %v", got, want)
	}
	if want := []PackedArray{{dtype.BFloat16, 128}, {dtype.Float32, 64}}; !reflect.DeepEqual(m.Packed, want) {
		t.Errorf("packed: got %v, want %v", m.Packed, want)
	}
	second := 1
	m.Program.Inputs = append(m.Program.Inputs, ProgramInput{Packed: &second})
	if err := m.Validate(); err != nil {
		t.Error(err)
	}
	m.Tables[1].Slot = Slot{0, 128 - 16} // 16 elements take 32 bytes
	m.Dense[0].Slot = Slot{0, 0}
	err := m.Validate()
	for _, want := range []string{
		"tables[1].slot.offset: got 112, want 0 to 96 (32 bytes in a stride of 128)",
		"dense[0].slot.array: got 0 (bfloat16), want an array of float32",
		"packed[1]: got no slot in it, want at least one (or leave the array out)",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v\nwant %s", err, want)
		}
	}
	m.Dense = nil
	if m.AssignSlots(dtype.BFloat16); len(m.Packed) != 1 {
		t.Errorf("packed without dense inputs: got %v, want one array", m.Packed)
	}
}

func TestValidateNamesEveryViolation(t *testing.T) {
	if err := validManifest().Validate(); err != nil {
		t.Fatal(err)
	}
	ptr := func(n int) *int { return &n }
	for _, c := range []struct {
		name string
		edit func(m *Manifest)
		want []string
	}{
		{"version", func(m *Manifest) { m.FormatVersion = 2 }, []string{"format_version: got 2, want 1"}},
		{"model name", func(m *Manifest) { m.Name = "a/b" }, []string{`name: got "a/b", want 1 to 256 bytes of UTF-8 without '/' and NUL`}},
		{"model version", func(m *Manifest) { m.Version = "01" }, []string{`version: got "01", want a decimal number in [0, 2^63) without sign and leading zeros`}},
		{"no tables", func(m *Manifest) { m.Tables = nil }, []string{"tables: count: got 0, want 1 to 4096"}},
		{"dotted name", func(m *Manifest) { m.Tables[0].Name = "a.b" }, []string{`tables[0].name: got "a.b", want a name without '.' and NUL`}},
		{"NUL in name", func(m *Manifest) { m.Dense[0].Name = "a\x00" }, []string{`dense[0].name: got "a\x00", want a name without '.' and NUL`}},
		{"no name", func(m *Manifest) { m.Tables[1].Name = "" }, []string{`tables[1].name: got "", want a name`}},
		{"long name", func(m *Manifest) { m.Tables[1].Name = strings.Repeat("x", 257) }, []string{"tables[1].name: got 257 bytes, want at most 256"}},
		{"name in UTF-8", func(m *Manifest) { m.Tables[1].Name = "\xff" }, []string{`tables[1].name: got "\xff", want UTF-8`}},
		{"reserved name", func(m *Manifest) { m.Tables[1].Name = "ids" }, []string{`tables[1].name: got "ids", want a name that is not reserved ("ids", "expect")`}},
		{"same name", func(m *Manifest) { m.Dense[0].Name = "item" }, []string{`dense[0].name: got "item", want a name other than that of tables[1]`}},
		{"rows", func(m *Manifest) { m.Tables[0].Rows = 0 }, []string{"tables[0].rows: got 0, want at least 1"}},
		{"too many rows", func(m *Manifest) { m.Tables[0].Rows = 1 << 62 }, []string{"tables[0].rows: got 4611686018427387904, want at most 18014398509481983 for a dim of 8"}},
		{"dim", func(m *Manifest) { m.Tables[0].Dim = -1 }, []string{"tables[0].dim: got -1, want 1 to 65536"}},
		{"hotness", func(m *Manifest) { m.Tables[0].Hotness = -1 }, []string{"tables[0].hotness: got -1, want 0 to 1048576"}},
		{"combiner", func(m *Manifest) { m.Tables[0].Combiner = "max" }, []string{`tables[0].combiner: got "max", want one of sum, mean, sqrtn`}},
		{"policy", func(m *Manifest) { m.Tables[0].IDPolicy = "" }, []string{`tables[0].id_policy: got "", want one of reject, clamp, zero, hash-mod`}},
		{"row type", func(m *Manifest) { m.Tables[0].RowDType = dtype.Int32 }, []string{"tables[0].row_dtype: got int32, want one of [float32 float16 bfloat16 int8]"}},
		{"tensor", func(m *Manifest) { m.Tables[0].Tensor = "" }, []string{`tables[0].tensor: got "", want the name of a tensor`}},
		{"path above the bundle", func(m *Manifest) { m.Tables[0].File = "../a" }, []string{`tables[0].file: got "../a", want a clean relative path with slashes, inside the bundle`}},
		{"absolute path", func(m *Manifest) { m.Program.Weights = "/a" }, []string{`program.weights: got "/a", want a clean relative path with slashes, inside the bundle`}},
		{"path that is not clean", func(m *Manifest) { m.Program.Files[0].File = "a/./b" }, []string{`program.files[0].file: got "a/./b", want a clean relative path with slashes, inside the bundle`}},
		{"no digest", func(m *Manifest) { delete(m.Digests, "weights") }, []string{`program.weights: got "weights" without a digest, want an entry in digests`}},
		{"bad digest", func(m *Manifest) { m.Digests["weights"] = "md5:00" }, []string{`digests["weights"]: got "md5:00", want "sha256:" and 64 lower-case hex digits`}},
		{"digest of the manifest", func(m *Manifest) { m.Digests["manifest.json"] = m.Digests["weights"] }, []string{`digests["manifest.json"]: got "manifest.json", want a clean relative path with slashes, inside the bundle`}},
		{"dense width", func(m *Manifest) { m.Dense[0].Width = 0 }, []string{"dense[0].width: got 0, want 1 to 65536"}},
		{"dense type", func(m *Manifest) { m.Dense[0].DType = dtype.Float16 }, []string{"dense[0].dtype: got float16, want float32", "dense[0].slot.array: got 0 (float32), want an array of float16"}},
		{"stride", func(m *Manifest) { m.Packed[0].Stride = 200 }, []string{"packed[0].stride: got 200, want a multiple of 64 from 64 to 16777216"}},
		{"two arrays of a type", func(m *Manifest) {
			m.Packed = append(m.Packed, PackedArray{dtype.Float32, 64})
			m.Dense[0].Slot = Slot{1, 0}
			m.Program.Inputs = append(m.Program.Inputs, ProgramInput{Packed: ptr(1)})
		}, []string{"packed[1].dtype: got float32, want a type other than that of packed[0]"}},
		{"array without a slot", func(m *Manifest) {
			m.Packed = append(m.Packed, PackedArray{dtype.Int32, 64})
		}, []string{"packed[1]: got no slot in it, want at least one (or leave the array out)", "program.inputs: got packed 1 0 times, want each packed array once"}},
		{"slot in no array", func(m *Manifest) { m.Tables[0].Slot.Array = 1 }, []string{"tables[0].slot.array: got 1, want an index into packed, which has 1"}},
		{"slot out of the row", func(m *Manifest) { m.Tables[1].Slot.Offset = 192 }, []string{"tables[1].slot.offset: got 192, want 0 to 128 (64 bytes in a stride of 192)"}},
		{"negative slot", func(m *Manifest) { m.Dense[0].Slot.Offset = -4 }, []string{"dense[0].slot.offset: got -4, want 0 to 180 (12 bytes in a stride of 192)"}},
		{"unaligned pooled slot", func(m *Manifest) { m.Tables[0].Slot.Offset = 16 }, []string{"tables[0].slot.offset: got 16, want a multiple of 64"}},
		{"unaligned dense slot", func(m *Manifest) { m.Dense[0].Slot.Offset = 129 }, []string{"dense[0].slot.offset: got 129, want a multiple of 4"}},
		{"overlap", func(m *Manifest) { m.Dense[0].Slot.Offset = 120 }, []string{"dense[0].slot: got bytes [120, 132), want none of those of tables[1].slot, [64, 128)"}},
		{"overlap of a long slot with several", func(m *Manifest) { m.Tables[1].Dim, m.Tables[1].Slot.Offset = 48, 0 }, []string{
			"tables[1].slot: got bytes [0, 192), want none of those of tables[0].slot, [0, 32)",
			"dense[0].slot: got bytes [128, 140), want none of those of tables[1].slot, [0, 192)",
		}},
		{"no outputs", func(m *Manifest) { m.Outputs = nil }, []string{"outputs: count: got 0, want 1 to 4096"}},
		{"same output", func(m *Manifest) { m.Outputs[1].Name = "click" }, []string{`outputs[1].name: got "click", want a name other than that of outputs[0]`}},
		{"output width", func(m *Manifest) { m.Outputs[1].Width = -1 }, []string{"outputs[1].width: got -1, want 0 to 65536"}},
		{"gap between outputs", func(m *Manifest) { m.Outputs[1].Column = 2 }, []string{"outputs[1].column: got 2, want 1 (columns in one run from 0, without gaps and overlaps)"}},
		{"outputs that overlap", func(m *Manifest) { m.Outputs[0].Column = 1 }, []string{"outputs[0].column: got 1, want 0 (columns in one run from 0, without gaps and overlaps)"}},
		{"max batch", func(m *Manifest) { m.MaxBatch, m.Buckets = 65537, []int{65537} }, []string{"max_batch: got 65537, want 1 to 65536"}},
		{"no buckets", func(m *Manifest) { m.Buckets = nil }, []string{"buckets: got none, want at least one, the last equal to max_batch"}},
		{"bucket order", func(m *Manifest) { m.Buckets = []int{2, 2, 4} }, []string{"buckets[1]: got 2, want more than 2 (positive and ascending)"}},
		{"bucket of zero", func(m *Manifest) { m.Buckets = []int{0, 4} }, []string{"buckets[0]: got 0, want more than 0 (positive and ascending)"}},
		{"last bucket", func(m *Manifest) { m.Buckets = []int{1, 2} }, []string{"buckets[1]: got 2, want max_batch (4)"}},
		{"input of neither kind", func(m *Manifest) { m.Program.Inputs[0] = ProgramInput{} }, []string{"program.inputs[0]: got neither or both, want either weight or packed"}},
		{"input in no array", func(m *Manifest) { m.Program.Inputs[1].Packed = ptr(-1) }, []string{"program.inputs[1].packed: got -1, want an index into packed, which has 1", "program.inputs: got packed 0 0 times, want each packed array once"}},
		{"array twice", func(m *Manifest) { m.Program.Inputs[0] = ProgramInput{Packed: ptr(0)} }, []string{"program.inputs: got packed 0 2 times, want each packed array once"}},
		{"no program", func(m *Manifest) { m.Program.Files = nil }, []string{"program.files: got none for bucket 1, want a file for it, or one with batch 0", "program.files: got none for bucket 4, want a file for it, or one with batch 0"}},
		{"program for no bucket", func(m *Manifest) {
			m.Program.Files = append(m.Program.Files, ProgramFile{3, "program"})
		}, []string{"program.files[1].batch: got 3, want 0 (any batch) or one of buckets [1 4]"}},
		{"two programs for a batch", func(m *Manifest) {
			m.Program.Files = append(m.Program.Files, ProgramFile{0, "program"})
		}, []string{"program.files[1].batch: got 0, want a batch other than that of program.files[0]"}},
		{"all at once", func(m *Manifest) { m.Version, m.Tables[0].Rows, m.Buckets[0] = "x", -1, -1 }, []string{
			`version: got "x", want a decimal number in [0, 2^63) without sign and leading zeros`,
			"tables[0].rows: got -1, want at least 1",
			"buckets[0]: got -1, want more than 0 (positive and ascending)",
		}},
	} {
		t.Run("I1/"+c.name, func(t *testing.T) {
			m := validManifest()
			c.edit(m)
			err := m.Validate()
			if err == nil {
				t.Fatalf("got no error, want %q", c.want)
			}
			if got, want := err.Error(), "validate manifest: "+strings.Join(c.want, "\n"); got != want {
				t.Errorf("error: got\n%s\nwant\n%s", got, want)
			}
			var v *Violation
			if !errors.As(err, &v) || v.Error() != c.want[0] {
				t.Errorf("violation: got %v, want %s", v, c.want[0])
			}
		})
	}
}

func TestManifestRoundTrip(t *testing.T) {
	m := validManifest()
	text, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeManifest(text)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, m) {
		t.Errorf("got %+v\nwant %+v", got, m)
	}
	m.Dense, m.Tables[0].Rows = nil, 10
	m.AssignSlots(dtype.Float32)
	if text, err = m.Encode(); err != nil || !strings.Contains(string(text), `"dense": []`) {
		t.Errorf("absent dense inputs must be written as [], got %v\n%s", err, text)
	}
	m.Name = ""
	if _, err = m.Encode(); err == nil {
		t.Error("an invalid manifest was written")
	}
}

func TestDecodeManifestNamesTheField(t *testing.T) {
	good, err := validManifest().Encode()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, old, new, want string }{
		{"unknown", `"max_batch": 4`, `"max_batch": 4, "max_bach": 4`, "max_bach: unknown field"},
		{"unknown inside", `"hotness": 0`, `"hotness": 0, "hot": 1`, "tables[1].hot: unknown field"},
		{"missing", `"hotness": 2,`, ``, "tables[0].hotness: missing"},
		{"wrong case", `"hotness": 2`, `"Hotness": 2`, "tables[0].Hotness: unknown field\ntables[0].hotness: missing"},
		{"repeated", `"hotness": 2`, `"hotness": 2, "hotness": 3`, `tables[0]: duplicate key "hotness"`},
		{"string for a number", `"hotness": 2`, `"hotness": "2"`, `tables[0].hotness: got "2", want an integer`},
		{"fraction", `"hotness": 2`, `"hotness": 2.5`, `tables[0].hotness: got 2.5, want an integer`},
		{"number for a string", `"version": "7"`, `"version": 7`, `version: got 7, want a string`},
		{"null", `"hotness": 2`, `"hotness": null`, `tables[0].hotness: got null, want a value`},
		{"object for an array", `"buckets": [`, `"buckets": {}, "x": [`, "buckets: got {}, want an array\nx: unknown field"},
		{"element type", `"row_dtype": "float32",`, `"row_dtype": "float31",`, `tables[0].row_dtype: parse dtype: got "float31", want one of bool, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float16, bfloat16, float32, float64`},
		{"another version", `"format_version": 1`, `"format_version": 2, "new": 1`, "format_version: got 2, want 1: make the bundle with the exporter that belongs to this server"},
	} {
		t.Run("I2/"+c.name, func(t *testing.T) {
			text := strings.Replace(string(good), c.old, c.new, 1)
			if text == string(good) {
				t.Fatalf("the manifest has no %q", c.old)
			}
			_, err := DecodeManifest([]byte(text))
			if err == nil {
				t.Fatalf("got no error, want %q", c.want)
			}
			got, ok := strings.CutPrefix(err.Error(), "decode manifest: ")
			if first, _, _ := strings.Cut(got, "\ntables[1]"); !ok || first != c.want {
				t.Errorf("error: got %q, want %q", err, c.want)
			}
		})
	}
	for text, want := range map[string]string{
		"{\n  \"format_version\": 1,\n  \"name\" \"x\"\n}": "line 3, column 10: invalid character '\"' after object key",
		"{\n  \"name\": 1,\n}":                             "line 3, column 1: invalid character '}'",
		"[]":                                               "line 1, column 1: json: cannot unmarshal array",
		"{\n":                                              "line 1, column 2: unexpected end of JSON input",
		"":                                                 "line 1, column 1: unexpected end of JSON input",
	} {
		if _, err := DecodeManifest([]byte(text)); err == nil || !strings.HasPrefix(err.Error(), "decode manifest: "+want) {
			t.Errorf("manifest %q: got %v, want %s", text, err, want)
		}
	}
	for _, text := range []string{"", "{", "[]", "null", `{"format_version":1}{}`, strings.Repeat("[", 20000)} {
		if _, err := DecodeManifest([]byte(text)); err == nil {
			t.Errorf("manifest %.20q: got no error", text)
		}
	}
}

func TestDigestsFollowWhatTheyCover(t *testing.T) {
	base := validManifest()
	other := digestPrefix + strings.Repeat("0b", 32)
	for _, c := range []struct {
		name            string
		edit            func(m *Manifest)
		tables, program bool
	}{
		{"nothing", func(*Manifest) {}, false, false},
		{"table file", func(m *Manifest) { m.Digests["tables/a"] = other }, true, false},
		{"table name", func(m *Manifest) { m.Tables[0].Name = "x" }, true, true},
		{"rows", func(m *Manifest) { m.Tables[0].Rows++ }, true, false},
		{"tensor", func(m *Manifest) { m.Tables[0].Tensor = "x" }, true, false},
		{"dim", func(m *Manifest) { m.Tables[0].Dim = 4 }, true, true},
		{"policy", func(m *Manifest) { m.Tables[0].IDPolicy = PolicyZero }, false, false},
		{"version", func(m *Manifest) { m.Version = "8" }, false, false},
		{"weights", func(m *Manifest) { m.Digests["weights"] = other }, false, true},
		{"program", func(m *Manifest) { m.Digests["program"] = other }, false, true},
		{"order of inputs", func(m *Manifest) {
			in := m.Program.Inputs
			in[0], in[1] = in[1], in[0]
		}, false, true},
		{"slot", func(m *Manifest) { m.Dense[0].Slot.Offset += 4 }, false, true},
		{"stride", func(m *Manifest) { m.Packed[0].Stride += 64 }, false, true},
		{"output", func(m *Manifest) { m.Outputs[0].Name = "x" }, false, true},
		{"buckets", func(m *Manifest) { m.Buckets = []int{4} }, false, false},
	} {
		m := validManifest()
		c.edit(m)
		if got := m.TablesDigest() != base.TablesDigest(); got != c.tables {
			t.Errorf("%s: tables digest changed: got %v, want %v", c.name, got, c.tables)
		}
		if got := m.ProgramDigest() != base.ProgramDigest(); got != c.program {
			t.Errorf("%s: program digest changed: got %v, want %v", c.name, got, c.program)
		}
	}
	if a, b := base.TablesDigest(), base.ProgramDigest(); a == b || len(a) != 64 || len(b) != 64 {
		t.Errorf("digests: got %q, %q", a, b)
	}
}

func FuzzDecodeManifest(f *testing.F) {
	good, err := validManifest().Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`{"format_version":1,"tables":[{}],"digests":{"a":1}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := DecodeManifest(text)
		if err != nil {
			return
		}
		out, err := m.Encode()
		if err != nil {
			t.Fatalf("encode what was decoded: %v", err)
		}
		again, err := DecodeManifest(out)
		if err != nil || !reflect.DeepEqual(again, m) {
			t.Fatalf("decode what was encoded: %v\ngot %+v\nwant %+v", err, again, m)
		}
		// I1: what is used without further checks holds.
		for i := range m.Tables {
			s := m.Tables[i].Slot
			if s.Offset < 0 || s.Offset+m.Tables[i].Dim*m.PooledDType(&m.Tables[i]).Size() > m.Packed[s.Array].Stride {
				t.Fatalf("slot of table %d lies outside its row: %+v", i, m.Tables[i])
			}
		}
		if !json.Valid(out) || m.ScoreColumns() < 1 || m.TablesDigest() == m.ProgramDigest() {
			t.Fatal("derived values of an accepted manifest are wrong")
		}
	})
}
