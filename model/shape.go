package model

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"rankd/internal/dtype"
)

// Columns returns the number of columns that the output takes in the program's result.
func (o Output) Columns() int { return max(1, o.Width) }

// ScoreColumns returns K, the number of columns of the program's result [B, K].
func (m *Manifest) ScoreColumns() int {
	k := 0
	for i := range m.Outputs {
		k += m.Outputs[i].Columns()
	}
	return k
}

// ScoreBytes returns the size of one row of the program's result in bytes.
func (m *Manifest) ScoreBytes() int { return 4 * m.ScoreColumns() }

// PooledDTypes lists the element types in which a pooled vector may lie in a packed row. It is summed as float32 in any case.
func PooledDTypes() []dtype.DType { return []dtype.DType{dtype.Float32, dtype.BFloat16} }

// PooledDType is the element type in which the table's pooled vector lies in the packed row. The manifest must be valid.
func (m *Manifest) PooledDType(t *Table) dtype.DType { return m.Packed[t.Slot.Array].DType }

// Bytes returns the size of the dense input's slot in bytes.
func (d *Dense) Bytes() int { return d.Width * d.DType.Size() }

// IDColumns returns the sum of all tables' hotness, the width of the packed input "ids", or false if a table is ragged.
func (m *Manifest) IDColumns() (int, bool) {
	n := 0
	for i := range m.Tables {
		if m.Tables[i].Hotness == 0 {
			return 0, false
		}
		n += m.Tables[i].Hotness
	}
	return n, true
}

// AssignSlots gives every table and dense input its slot: pooled vectors, of one of PooledDTypes, first, each at the next
// multiple of 64 bytes, in the order of the tables, then the dense inputs without gaps. What has the same type shares a packed
// array; so there are two if pooled vectors are not float32 and there are dense inputs. It replaces Packed.
func (m *Manifest) AssignSlots(pooled dtype.DType) {
	at := 0
	for i := range m.Tables {
		at = alignSlot(at)
		m.Tables[i].Slot = Slot{Array: 0, Offset: at}
		at += m.Tables[i].Dim * pooled.Size()
	}
	m.Packed = []PackedArray{{DType: pooled, Stride: alignSlot(at)}}
	if len(m.Dense) == 0 {
		return
	}
	array := 0
	if pooled != dtype.Float32 {
		m.Packed = append(m.Packed, PackedArray{DType: dtype.Float32})
		array, at = 1, 0
	}
	at = alignSlot(at)
	for i := range m.Dense {
		m.Dense[i].Slot = Slot{Array: array, Offset: at}
		at += m.Dense[i].Bytes()
	}
	m.Packed[array].Stride = alignSlot(at)
}

func alignSlot(n int) int { return (n + slotAlign - 1) &^ (slotAlign - 1) }

// TablesDigest returns a SHA-256 in hex over everything that determines the content of a table segment. Two manifests with
// the same value may share one. Slots, policies, combiners and programs are not part of it.
func (m *Manifest) TablesDigest() string {
	type table struct {
		Name, DType, Tensor, FileDigest string
		Rows                            int64
		Dim                             int
	}
	all := make([]table, len(m.Tables))
	for i, t := range m.Tables {
		all[i] = table{t.Name, t.RowDType.String(), t.Tensor, m.Digests[t.File], t.Rows, t.Dim}
	}
	return digestOf("tables", all)
}

// ProgramDigest returns a SHA-256 in hex over everything that determines what the device computes from a packed row: the
// layout of the row, the programs, their parameters, the weights and the outputs. Buckets are not part of it.
func (m *Manifest) ProgramDigest() string {
	type file struct {
		Batch  int
		Digest string
	}
	type place struct {
		Name  string
		Width int
		Slot  Slot
	}
	content := struct {
		Files         []file
		Weights       string
		Inputs        []ProgramInput
		Packed        []PackedArray
		Tables, Dense []place
		Outputs       []Output
	}{Weights: m.Digests[m.Program.Weights], Inputs: m.Program.Inputs, Packed: m.Packed, Outputs: m.Outputs}
	for _, f := range m.Program.Files {
		content.Files = append(content.Files, file{f.Batch, m.Digests[f.File]})
	}
	for _, t := range m.Tables {
		content.Tables = append(content.Tables, place{t.Name, t.Dim, t.Slot})
	}
	for _, d := range m.Dense {
		content.Dense = append(content.Dense, place{d.Name, d.Width, d.Slot})
	}
	return digestOf("program", content)
}

// digestOf hashes the JSON of a value made of structs, slices, strings and numbers, whose JSON is the same everywhere.
func digestOf(what string, content any) string {
	text, err := json.Marshal(content)
	if err != nil {
		panic(fmt.Sprintf("digest of %s: %v", what, err)) // an invalid dtype: the manifest was not validated
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "rankd %s format %d\n%s", what, FormatVersion, text))
	return hex.EncodeToString(sum[:])
}
