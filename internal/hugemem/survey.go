package hugemem

import (
	"fmt"
	"math"
)

// Offer is a place in which Create would look for pages, and what it has at this moment.
type Offer struct {
	Mode  Mode
	Dir   string // empty: nameless memory
	Need  int64  // bytes, in whole pages of the place
	Room  int64  // bytes
	Limit string // what sets Room: "filesystem", "cgroup", "machine memory", "hugetlb pool" or "none"
}

// Fits reports whether the place has room.
func (o Offer) Fits() bool { return o.Need <= o.Room }

// Place names the place for people.
func (o Offer) Place() string {
	if o.Dir == "" {
		return "nameless memory"
	}
	return o.Dir
}

// Survey lists the places that Create would try for these options, best first. It makes nothing, so it does not know whether
// the kernel will merge pages.
func Survey(o Options) ([]Offer, error) {
	places, err := o.places()
	if err != nil {
		return nil, fmt.Errorf("look for shared pages: %w", err)
	}
	var offers []Offer
	for _, p := range places {
		need := (o.Size + p.pageSize - 1) &^ (p.pageSize - 1)
		if need < o.Size {
			need = math.MaxInt64
		}
		r, err := p.room()
		if err != nil {
			return nil, err
		}
		offers = append(offers, Offer{Mode: p.mode, Dir: p.dir, Need: need, Room: r.bytes, Limit: r.limit})
	}
	return offers, nil
}

// Meminfo reads root/proc/meminfo; sizes are bytes.
func Meminfo(root string) map[string]int64 { return meminfo(root) }
