package topology

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// MaxNumber is the largest number of a CPU or node that a list may have; the kernel's own limit is 8191.
const MaxNumber = 1<<13 - 1

// Set is numbers of CPUs or of nodes, ascending and without repeats. Nil is the empty set.
type Set []int

// SetOf makes a set of numbers in any order.
func SetOf(numbers ...int) Set {
	s := Set(slices.Clone(numbers))
	slices.Sort(s)
	return slices.Compact(s)
}

// ParseList reads the kernel's lists, such as "0-3,8". An empty text is the empty set. Numbers may come in any order and twice.
func ParseList(text string) (Set, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return nil, nil
	}
	var numbers []int
	for part := range strings.SplitSeq(text, ",") {
		from, to, isRange := strings.Cut(part, "-")
		if !isRange {
			to = from
		}
		first, err := parseNumber(from)
		last, err2 := parseNumber(to)
		switch {
		case err != nil || err2 != nil:
			return nil, fmt.Errorf("read list: got %q, want numbers of at most %d and ranges such as 0-3,8", text, MaxNumber)
		case last < first:
			return nil, fmt.Errorf("read list: got the range %q, want the smaller number first", part)
		case len(numbers) > 1<<16: // the same ranges again and again
			return nil, fmt.Errorf("read list: got more than %d numbers", 1<<16)
		}
		for n := first; n <= last; n++ {
			numbers = append(numbers, n)
		}
	}
	return SetOf(numbers...), nil
}

// parseNumber takes digits alone: no sign and no blank.
func parseNumber(text string) (int, error) {
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return 0, err
	}
	if n > MaxNumber {
		return 0, strconv.ErrRange
	}
	return int(n), nil
}

// String writes the kernel's list, "" for the empty set.
func (s Set) String() string {
	var b strings.Builder
	for i := 0; i < len(s); {
		last := i
		for last+1 < len(s) && s[last+1] == s[last]+1 {
			last++
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(s[i]))
		if last > i {
			fmt.Fprintf(&b, "-%d", s[last])
		}
		i = last + 1
	}
	return b.String()
}

// MarshalText lets a set stand in JSON as a list.
func (s Set) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (s *Set) UnmarshalText(text []byte) (err error) {
	*s, err = ParseList(string(text))
	return err
}

// Has reports whether a number is in the set.
func (s Set) Has(n int) bool {
	_, found := slices.BinarySearch(s, n)
	return found
}

// And is what is in both sets.
func (s Set) And(other Set) Set { return s.filter(other.Has) }

// Without is what is in s and not in other.
func (s Set) Without(other Set) Set { return s.filter(func(n int) bool { return !other.Has(n) }) }

func (s Set) filter(keep func(int) bool) (out Set) {
	for _, n := range s {
		if keep(n) {
			out = append(out, n)
		}
	}
	return out
}

// Or is what is in either set.
func (s Set) Or(other Set) Set { return SetOf(slices.Concat(s, other)...) }

// Equal reports whether two sets have the same numbers.
func (s Set) Equal(other Set) bool { return slices.Equal(s, other) }
