package h2wire

import (
	"encoding/binary"
	"fmt"
)

// Preface is what a client sends before its first frame.
const Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// HeaderBytes is the size of a frame's header.
const HeaderBytes = 9

// DefaultMaxFrame is the largest payload that a peer takes unless its settings say more.
const DefaultMaxFrame = 16384

// Type is the type of a frame.
type Type uint8

// Frame types.
const (
	TypeData Type = iota
	TypeHeaders
	TypePriority
	TypeRSTStream
	TypeSettings
	TypePushPromise
	TypePing
	TypeGoAway
	TypeWindowUpdate
	TypeContinuation
)

// Flags; ACK and END_STREAM are the same bit on different frames.
const (
	FlagEndStream  = 0x1
	FlagAck        = 0x1
	FlagEndHeaders = 0x4
	FlagPadded     = 0x8
	FlagPriority   = 0x20
)

// ErrCode is an HTTP/2 error code.
type ErrCode uint32

// Error codes.
const (
	ErrCodeNo ErrCode = iota
	ErrCodeProtocol
	ErrCodeInternal
	ErrCodeFlowControl
	ErrCodeSettingsTimeout
	ErrCodeStreamClosed
	ErrCodeFrameSize
	ErrCodeRefusedStream
	ErrCodeCancel
	ErrCodeCompression
	ErrCodeConnect
	ErrCodeEnhanceYourCalm
	ErrCodeInadequateSecurity
	ErrCodeHTTP11Required
)

var errCodeNames = [...]string{
	"NO_ERROR", "PROTOCOL_ERROR", "INTERNAL_ERROR", "FLOW_CONTROL_ERROR", "SETTINGS_TIMEOUT", "STREAM_CLOSED", "FRAME_SIZE_ERROR",
	"REFUSED_STREAM", "CANCEL", "COMPRESSION_ERROR", "CONNECT_ERROR", "ENHANCE_YOUR_CALM", "INADEQUATE_SECURITY", "HTTP_1_1_REQUIRED",
}

func (c ErrCode) String() string {
	if int(c) < len(errCodeNames) {
		return errCodeNames[c]
	}
	return fmt.Sprintf("error code %#x", uint32(c))
}

// ConnError is a breach of the protocol that ends the connection.
type ConnError struct {
	Code ErrCode
	Why  string
}

func (e *ConnError) Error() string { return fmt.Sprintf("%s: %s", e.Code, e.Why) }

func connErrorf(code ErrCode, format string, args ...any) *ConnError {
	return &ConnError{code, fmt.Sprintf(format, args...)}
}

// Header is a frame's header.
type Header struct {
	Length int // bytes of the payload
	Type   Type
	Flags  uint8
	Stream uint32
}

// Has reports whether a flag is set.
func (h Header) Has(flag uint8) bool { return h.Flags&flag != 0 }

// ReadFrame reads the frame at the start of in. ok is false if not all of it is there; that a frame is longer than maxFrame is
// known as soon as its header is. The payload aliases in; the frame takes HeaderBytes + h.Length bytes of it.
func ReadFrame(in []byte, maxFrame int) (h Header, payload []byte, ok bool, err *ConnError) {
	if len(in) < HeaderBytes {
		return Header{}, nil, false, nil
	}
	h = Header{
		Length: int(in[0])<<16 | int(in[1])<<8 | int(in[2]),
		Type:   Type(in[3]),
		Flags:  in[4],
		Stream: binary.BigEndian.Uint32(in[5:]) & (1<<31 - 1),
	}
	if h.Length > maxFrame {
		return h, nil, false, connErrorf(ErrCodeFrameSize, "read frame of type %d: got %d bytes, want at most %d", h.Type, h.Length, maxFrame)
	}
	if len(in) < HeaderBytes+h.Length {
		return h, nil, false, nil
	}
	return h, in[HeaderBytes:][:h.Length:h.Length], true, nil
}

// Unpad removes what the flags PADDED and PRIORITY add to the payload of DATA and HEADERS.
func (h Header) Unpad(payload []byte) ([]byte, *ConnError) {
	padding := 0
	if h.Has(FlagPadded) {
		if len(payload) < 1 {
			return nil, connErrorf(ErrCodeFrameSize, "read padded frame: got no byte for the length of the padding")
		}
		padding, payload = int(payload[0]), payload[1:]
	}
	if h.Type == TypeHeaders && h.Has(FlagPriority) {
		if len(payload) < 5 {
			return nil, connErrorf(ErrCodeFrameSize, "read headers: got %d bytes for the priority, want 5", len(payload))
		}
		payload = payload[5:]
	}
	if padding > len(payload) {
		return nil, connErrorf(ErrCodeProtocol, "read padded frame: got %d bytes of padding in %d", padding, len(payload))
	}
	return payload[:len(payload)-padding], nil
}

// AppendHeader appends a frame's header. The payload of length bytes is for the caller to append.
func AppendHeader(dst []byte, length int, t Type, flags uint8, stream uint32) []byte {
	return append(dst, byte(length>>16), byte(length>>8), byte(length), byte(t), flags,
		byte(stream>>24), byte(stream>>16), byte(stream>>8), byte(stream))
}

// AppendWindowUpdate appends a WINDOW_UPDATE of n bytes, 1 to 2^31-1; stream 0 is the connection.
func AppendWindowUpdate(dst []byte, stream, n uint32) []byte {
	return binary.BigEndian.AppendUint32(AppendHeader(dst, 4, TypeWindowUpdate, 0, stream), n)
}

// AppendRST appends a RST_STREAM.
func AppendRST(dst []byte, stream uint32, code ErrCode) []byte {
	return binary.BigEndian.AppendUint32(AppendHeader(dst, 4, TypeRSTStream, 0, stream), uint32(code))
}

// AppendGoAway appends a GOAWAY; last is the highest stream of the peer that was looked at.
func AppendGoAway(dst []byte, last uint32, code ErrCode, why string) []byte {
	dst = AppendHeader(dst, 8+len(why), TypeGoAway, 0, 0)
	dst = binary.BigEndian.AppendUint32(dst, last)
	dst = binary.BigEndian.AppendUint32(dst, uint32(code))
	return append(dst, why...)
}

// AppendPing appends a PING with its 8 bytes of data, or the answer to one.
func AppendPing(dst, data []byte, ack bool) []byte {
	var flags uint8
	if ack {
		flags = FlagAck
	}
	return append(AppendHeader(dst, 8, TypePing, flags, 0), data...)
}
