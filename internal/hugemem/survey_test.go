package hugemem

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestSurveyNamesThePlaceThatCreateTakes(t *testing.T) {
	for _, size := range []int64{1, 3 * HugeSize, 1 << 60} {
		o := Options{Name: "rankd-survey", Size: size}
		offers, err := Survey(o)
		if err != nil {
			t.Fatal(err)
		}
		fits := slices.IndexFunc(offers, Offer.Fits)
		if size == 1<<60 {
			if fits >= 0 {
				t.Errorf("%d bytes: got %+v, want no place", size, offers[fits])
			}
			continue
		}
		if fits < 0 {
			t.Fatalf("%d bytes: got no place in %+v", size, offers)
		}
		f, err := Create(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if f.Size != offers[fits].Need || f.Coverage.Mode > offers[fits].Mode && offers[fits].Mode != Collapse {
			t.Errorf("got %d bytes, %v, want %+v", f.Size, f.Coverage.Mode, offers[fits])
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestSurveyMakesNothing(t *testing.T) {
	before, _ := os.ReadDir(DefaultDir)
	if _, err := Survey(Options{Name: "rankd-survey", Size: HugeSize, Named: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(DefaultDir, "rankd-survey")); err == nil {
		t.Errorf("got a file, want none; before there were %d", len(before))
	}
	if _, err := Survey(Options{Name: "x", Size: 1, Named: true, Dir: "/proc"}); err == nil {
		t.Error("directory /proc: got no error")
	}
}
