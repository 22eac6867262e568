package hugemem

import "fmt"

// Mode is a way to get pages. The zero value Auto asks for the best; in a Coverage it means that the kernel did not say.
type Mode uint8

// The modes, best first.
const (
	Auto      Mode = iota
	HugeTmpfs      // a tmpfs mounted huge=always or huge=within_size
	Hugetlb        // pages reserved in the hugetlb pool
	Collapse       // small pages merged with MADV_COLLAPSE
	Small          // the base page size, 4 KiB on most machines
)

var modeNames = [...]string{"auto", "huge-tmpfs", "hugetlb", "collapse", "4k"}

// String is the name used in flags, logs and metrics.
func (m Mode) String() string {
	if int(m) < len(modeNames) {
		return modeNames[m]
	}
	return fmt.Sprintf("mode(%d)", uint8(m))
}

// ParseMode reads a name that String gives.
func ParseMode(s string) (Mode, error) {
	for i, n := range modeNames {
		if n == s {
			return Mode(i), nil
		}
	}
	return Auto, fmt.Errorf("parse page mode: got %q, want one of auto, huge-tmpfs, hugetlb, collapse, 4k", s)
}

// MarshalText lets a Mode stand in JSON by name.
func (m Mode) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (m *Mode) UnmarshalText(b []byte) error {
	v, err := ParseMode(string(b))
	*m = v
	return err
}

// Coverage is what the kernel says about the pages of one mapping. All figures are bytes.
type Coverage struct {
	Mode          Mode  `json:"mode"`           // Small if no page is huge
	HugeBytes     int64 `json:"huge_bytes"`     // mapped by huge pages in this process
	HugetlbBytes  int64 `json:"hugetlb_bytes"`  // the part of HugeBytes that is hugetlb; it is not in PSS
	ResidentBytes int64 `json:"resident_bytes"` // mapped at all, in this process
	TotalBytes    int64 `json:"total_bytes"`    // the length of the mapping
}

// String reads like "collapse, 64 of 66 MiB on huge pages".
func (c Coverage) String() string {
	return fmt.Sprintf("%v, %d of %d MiB on huge pages", c.Mode, c.HugeBytes>>20, c.TotalBytes>>20)
}
