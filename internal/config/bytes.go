package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Bytes is a number of bytes with a human syntax. It is never negative when parsed.
type Bytes int64

var units = []struct {
	suffix string
	size   int64
}{
	{"TiB", 1 << 40},
	{"GiB", 1 << 30},
	{"MiB", 1 << 20},
	{"KiB", 1 << 10},
	{"B", 1},
}

// ParseBytes reads "4096", "4096B", "16MiB", "1.5GiB" (suffixes B, KiB, MiB, GiB, TiB, powers of 1024 only). A fraction
// must come to a whole number of bytes.
func ParseBytes(s string) (Bytes, error) {
	number, size := strings.TrimSpace(s), int64(1)
	for _, u := range units {
		if rest, ok := strings.CutSuffix(number, u.suffix); ok {
			number, size = strings.TrimSpace(rest), u.size
			break
		}
	}
	if n, err := strconv.ParseInt(number, 10, 64); err == nil {
		if n < 0 || n > math.MaxInt64/size {
			return 0, fmt.Errorf("got %q, want 0 to %d bytes", s, int64(math.MaxInt64))
		}
		return Bytes(n * size), nil
	}
	f, err := strconv.ParseFloat(number, 64)
	exact := f * float64(size)
	if err != nil || f < 0 || exact != math.Trunc(exact) || exact >= 1<<53 {
		return 0, fmt.Errorf("got %q, want a whole number of bytes such as 4096, 16MiB or 1.5GiB", s)
	}
	return Bytes(exact), nil
}

// String gives the value with the largest suffix that leaves a whole number: ParseBytes(b.String()) == b.
func (b Bytes) String() string {
	if b == 0 {
		return "0"
	}
	for _, u := range units[:len(units)-1] {
		if int64(b)%u.size == 0 {
			return strconv.FormatInt(int64(b)/u.size, 10) + u.suffix
		}
	}
	return strconv.FormatInt(int64(b), 10)
}

// Human gives the value with three digits or so, for people: "2.96 GiB". It is not exact.
func (b Bytes) Human() string {
	for _, u := range units[:len(units)-1] {
		if int64(b) >= u.size {
			return strconv.FormatFloat(float64(b)/float64(u.size), 'f', 2, 64) + " " + u.suffix
		}
	}
	return strconv.FormatInt(int64(b), 10) + " B"
}
