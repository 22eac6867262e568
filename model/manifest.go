package model

import "rankd/internal/dtype"

// FormatVersion is the manifest version that this package writes and reads.
const FormatVersion = 1

// Manifest is manifest.json: everything about a model but its numbers. Offsets and strides are bytes.
type Manifest struct {
	FormatVersion int    `json:"format_version"`
	Name          string `json:"name"`    // what clients put into model_name
	Version       string `json:"version"` // decimal, what clients put into model_version

	Tables  []Table       `json:"tables"`
	Dense   []Dense       `json:"dense"`   // dense inputs, copied into the packed row
	Packed  []PackedArray `json:"packed"`  // at most one per dtype; the program's batch inputs
	Outputs []Output      `json:"outputs"` // columns of the program's one float32 result [B, K]
	Program Program       `json:"program"`

	MaxBatch int   `json:"max_batch"` // rows of the largest bucket
	Buckets  []int `json:"buckets"`   // ascending; the last one is MaxBatch

	// Digests holds "sha256:<hex>" for every other file of the bundle, by its slash-separated relative path.
	Digests map[string]string `json:"digests"`
}

// Table is one embedding table and the bag of ids that a row of a request brings for it.
type Table struct {
	Name     string      `json:"name"` // also the name of the sparse input
	Rows     int64       `json:"rows"`
	Dim      int         `json:"dim"`
	Hotness  int         `json:"hotness"`   // ids a bag; 0 means ragged
	Combiner string      `json:"combiner"`  // "sum", "mean" or "sqrtn"
	IDPolicy string      `json:"id_policy"` // "reject", "clamp", "zero" or "hash-mod"
	RowDType dtype.DType `json:"row_dtype"` // one of RowDTypes
	File     string      `json:"file"`      // safetensors file, relative
	Tensor   string      `json:"tensor"`    // its tensor, [Rows, Dim]; int8: [Rows, Dim+8] of uint8
	Slot     Slot        `json:"slot"`      // where the pooled vector goes: Dim elements of the array's type, one of PooledDTypes
}

// Dense is a dense input [B, Width].
type Dense struct {
	Name  string      `json:"name"`
	Width int         `json:"width"`
	DType dtype.DType `json:"dtype"` // as it stands in the packed row: float32
	Slot  Slot        `json:"slot"`
}

// Slot is a place in a packed row.
type Slot struct {
	Array  int `json:"array"`  // index into Manifest.Packed
	Offset int `json:"offset"` // bytes from the start of the row; 64-byte aligned for pooled vectors
}

// PackedArray is one array of packed rows [B, Stride / DType.Size()], the form in which a batch goes to the device.
type PackedArray struct {
	DType  dtype.DType `json:"dtype"`
	Stride int         `json:"stride"` // bytes a row, a multiple of 64
}

// Output is a run of columns in the program's result.
type Output struct {
	Name   string `json:"name"`
	Width  int    `json:"width"`  // 0: shape [B]; k > 0: shape [B, k]
	Column int    `json:"column"` // first column in the result [B, K]
}

// Program says how to call the compiled network: one entry function "main" whose result is one float32 array [B, K],
// K the number of output columns.
type Program struct {
	Weights string         `json:"weights"` // safetensors file of the dense weights
	Inputs  []ProgramInput `json:"inputs"`  // in the order of main's parameters
	Files   []ProgramFile  `json:"files"`
}

// ProgramInput is one parameter of main: Weight names a tensor of the weights file, or Packed is an index into Manifest.Packed.
type ProgramInput struct {
	Weight string `json:"weight,omitempty"`
	Packed *int   `json:"packed,omitempty"`
}

// BatchToken stands for the batch size in the text of a program file whose Batch is 0.
const BatchToken = "@B@"

// ProgramFile is a StableHLO program: MLIR text or portable bytecode for one batch size, or (Batch 0) MLIR text in which
// every occurrence of BatchToken is to be replaced with the batch size, so that any bucket can be compiled from it.
type ProgramFile struct {
	Batch int    `json:"batch"`
	File  string `json:"file"`
}
