package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// maxManifestBytes bounds manifest.json, so that a wrong file is refused before it is read into memory.
const maxManifestBytes = 16 << 20

// DecodeManifest reads manifest.json strictly (I2) and validates it (I1). The error holds every violation, one a line.
func DecodeManifest(data []byte) (*Manifest, error) {
	// Look at the version alone first: of another version's manifest one wants to hear that, not that its fields are unknown.
	var head struct {
		FormatVersion json.RawMessage `json:"format_version"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return nil, fmt.Errorf("decode manifest: %w", placed(data, err))
	}
	if want := fmt.Sprint(FormatVersion); string(head.FormatVersion) != want && head.FormatVersion != nil {
		return nil, fmt.Errorf("decode manifest: format_version: got %s, want %s: make the bundle with the exporter that belongs to this server", abridge(head.FormatVersion), want)
	}
	m := new(Manifest)
	if err := decodeStrict(data, m); err != nil {
		return nil, fmt.Errorf("decode manifest: %w", err)
	}
	if err := m.Validate(); err != nil {
		return nil, err
	}
	return m, nil
}

// placed adds line and column, both from 1, to an error that says where in data it was met. Columns count bytes.
func placed(data []byte, err error) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	offset := int64(0) // of the bytes read, the offending one included
	switch {
	case errors.As(err, &syntax):
		offset = syntax.Offset
	case errors.As(err, &kind):
		offset = kind.Offset
	default:
		return err
	}
	before := data[:min(max(offset-1, 0), int64(len(data)))]
	line, column := 1+bytes.Count(before, []byte{'\n'}), len(before)-bytes.LastIndexByte(before, '\n')
	return fmt.Errorf("line %d, column %d: %w", line, column, err)
}

// Encode returns the text of manifest.json. It validates first: no bundle is written that this package would not read.
func (m *Manifest) Encode() ([]byte, error) {
	if err := m.Validate(); err != nil {
		return nil, err
	}
	full := *m
	full.Tables = orEmpty(m.Tables)
	full.Dense = orEmpty(m.Dense)
	full.Packed = orEmpty(m.Packed)
	full.Outputs = orEmpty(m.Outputs)
	full.Buckets = orEmpty(m.Buckets)
	full.Program.Inputs = orEmpty(m.Program.Inputs)
	full.Program.Files = orEmpty(m.Program.Files)
	if full.Digests == nil {
		full.Digests = map[string]string{}
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(&full); err != nil {
		return nil, fmt.Errorf("encode manifest: %w", err)
	}
	if b.Len() > maxManifestBytes {
		return nil, errors.New("encode manifest: larger than 16 MiB")
	}
	return b.Bytes(), nil
}

// orEmpty turns nil into an empty slice, which JSON writes as [] and not as null.
func orEmpty[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}
