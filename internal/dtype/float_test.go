package dtype

import (
	"math"
	"math/rand/v2"
	"testing"
)

// nearest finds the value of a half-width type that is nearest to x by looking at all of them: of two the one with an even pattern.
func nearest(x float32, widen func(uint16) float32) uint16 {
	best, distance := uint16(0), math.Inf(1)
	for h := range 1 << 16 {
		y := float64(widen(uint16(h)))
		if math.IsNaN(y) || math.IsInf(y, 0) || math.Signbit(y) != math.Signbit(float64(x)) {
			continue
		}
		d := math.Abs(y - float64(x))
		if d < distance || (d == distance && h&1 == 0) {
			best, distance = uint16(h), d
		}
	}
	return best
}

func TestHalvesRoundToTheNearestEvenValue(t *testing.T) {
	for _, c := range []struct {
		name   string
		widen  func(uint16) float32
		narrow func(float32) uint16
		most   float64 // finite values up to here have a finite neighbour
	}{
		{"float16", Float16ToFloat32, Float32ToFloat16, 65504},
		{"bfloat16", BFloat16ToFloat32, Float32ToBFloat16, 3.38e38},
	} {
		t.Run(c.name, func(t *testing.T) {
			for h := range 1 << 16 {
				x := c.widen(uint16(h))
				got := c.narrow(x)
				if math.IsNaN(float64(x)) {
					if !math.IsNaN(float64(c.widen(got))) {
						t.Fatalf("NaN %#x: got %#x, want a NaN", h, got)
					}
				} else if got != uint16(h) {
					t.Fatalf("%v: got %#x, want %#x", x, got, h)
				}
			}
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			rng := rand.New(rand.NewPCG(seed, 0))
			for n := range 600 {
				h := uint16(rng.Uint32())
				x := float64(c.widen(h))
				if n%2 == 0 { // halfway between two neighbours
					x = (x + float64(c.widen(h+1))) / 2
				} else {
					x *= 1 + rng.NormFloat64()/1000
				}
				f := float32(x)
				if !(math.Abs(float64(f)) <= c.most) {
					continue
				}
				if got, want := c.narrow(f), nearest(f, c.widen); got != want {
					t.Fatalf("%v (%#x): got %#x, want %#x", f, math.Float32bits(f), got, want)
				}
			}
			for _, f := range []float64{math.Inf(1), 3.4e38} {
				if got := c.widen(c.narrow(float32(f))); !math.IsInf(float64(got), 1) {
					t.Errorf("%v: got %v, want infinity", f, got)
				}
			}
		})
	}
}
