package h2wire

import (
	"encoding/base64"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
)

// PrefixBytes is the size of what stands before a message: a flag for compression and the length.
const PrefixBytes = 5

// prefix is that of a plain message of n bytes.
func prefix(n int) [PrefixBytes]byte {
	return [PrefixBytes]byte{0, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}
}

// AppendMessage appends a message with its prefix.
func AppendMessage(dst, message []byte) []byte {
	p := prefix(len(message))
	return append(append(dst, p[:]...), message...)
}

// appendTimeout appends the value of grpc-timeout: at most eight digits and a unit, rounded up.
func appendTimeout(dst []byte, d time.Duration) []byte {
	d = max(d, 1)
	for _, u := range []struct {
		size time.Duration
		name byte
	}{{time.Nanosecond, 'n'}, {time.Microsecond, 'u'}, {time.Millisecond, 'm'}, {time.Second, 'S'}, {time.Minute, 'M'}} {
		if n := (d + u.size - 1) / u.size; n < 1e8 {
			return append(strconv.AppendInt(dst, int64(n), 10), u.name)
		}
	}
	return append(strconv.AppendInt(dst, int64(d/time.Hour)+1, 10), 'H')
}

// unescape decodes the percent-encoding of grpc-message; what is no escape stays as it is.
func unescape(s string) string {
	if !strings.Contains(s, "%") {
		return s
	}
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+3], 16, 8); err == nil {
				out = append(out, byte(n))
				i += 2
				continue
			}
		}
		out = append(out, s[i])
	}
	return string(out)
}

// decodeBinary decodes the base64 of a header whose name ends in -bin, with or without padding.
func decodeBinary(s string) ([]byte, error) {
	return base64.RawStdEncoding.DecodeString(strings.TrimRight(s, "="))
}

// codeOfHTTP is the status of a reply that is no gRPC at all.
func codeOfHTTP(status int) codes.Code {
	switch status {
	case 400:
		return codes.Internal
	case 401:
		return codes.Unauthenticated
	case 403:
		return codes.PermissionDenied
	case 404:
		return codes.Unimplemented
	case 429, 502, 503, 504:
		return codes.Unavailable
	}
	return codes.Unknown
}

// codeOfReset is the status of a call whose stream the server has reset.
func codeOfReset(c ErrCode) codes.Code {
	switch c {
	case ErrCodeRefusedStream:
		return codes.Unavailable
	case ErrCodeCancel:
		return codes.Canceled
	case ErrCodeEnhanceYourCalm, ErrCodeFlowControl:
		return codes.ResourceExhausted
	case ErrCodeInadequateSecurity:
		return codes.PermissionDenied
	}
	return codes.Internal
}
