package h2wire

import "golang.org/x/net/http2/hpack"

// Limits of what a peer may send as headers.
const (
	maxBlockBytes = 64 << 10 // of one field block, over all its frames
	maxFieldBytes = 32 << 10 // of one name or value
)

// Decoder reads field blocks, which may come in several fragments.
type Decoder struct {
	hpack *hpack.Decoder
	bytes int // of the block so far
}

// NewDecoder calls field for every field of every block. The strings may be kept.
func NewDecoder(field func(name, value string)) *Decoder {
	d := &Decoder{hpack: hpack.NewDecoder(tableDefault, func(f hpack.HeaderField) { field(f.Name, f.Value) })}
	d.hpack.SetMaxStringLength(maxFieldBytes)
	return d
}

// Fragment decodes a piece of a block; last says that it ends there.
func (d *Decoder) Fragment(p []byte, last bool) *ConnError {
	if d.bytes += len(p); d.bytes > maxBlockBytes {
		return connErrorf(ErrCodeEnhanceYourCalm, "read headers: got more than %d bytes", maxBlockBytes)
	}
	if _, err := d.hpack.Write(p); err != nil {
		return connErrorf(ErrCodeCompression, "read headers: %v", err)
	}
	if !last {
		return nil
	}
	d.bytes = 0
	if err := d.hpack.Close(); err != nil {
		return connErrorf(ErrCodeCompression, "read headers: %v", err)
	}
	return nil
}
