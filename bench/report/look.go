package report

import (
	"image/color"
	"slices"

	"gonum.org/v1/plot/vg/draw"
)

// look is how a server is drawn. It is the same in every chart, whatever else is in it.
type look struct {
	colour color.Color
	shape  draw.GlyphDrawer // tells lines apart for those who don't see the colours
}

// looks are those of the servers that have a fixed one, by name; the others get them by their place in a chart.
var looks = []struct {
	name string
	look
}{
	{"rankd", look{color.RGBA{0x2f, 0x81, 0xf7, 0xff}, draw.CircleGlyph{}}},
	{"rankd-nobatch", look{color.RGBA{0x7a, 0xa7, 0xe0, 0xff}, draw.RingGlyph{}}},
	{"rankd-int8", look{color.RGBA{0x1f, 0xa3, 0xb5, 0xff}, draw.BoxGlyph{}}},
	{"py", look{color.RGBA{0xdb, 0x7c, 0x26, 0xff}, draw.PyramidGlyph{}}},
	{"py-batch", look{color.RGBA{0xb5, 0x94, 0x10, 0xff}, draw.TriangleGlyph{}}},
	{"py-mp", look{color.RGBA{0xc2, 0x5c, 0xb0, 0xff}, draw.SquareGlyph{}}},
	{"py-mp-batch", look{color.RGBA{0x8a, 0x6f, 0xd1, 0xff}, draw.CrossGlyph{}}},
	{"py-mp-shared", look{color.RGBA{0xa0, 0x63, 0x4b, 0xff}, draw.PyramidGlyph{}}},
	{"py-mp-batch-shared", look{color.RGBA{0xd2, 0x4d, 0x57, 0xff}, draw.PlusGlyph{}}},
	{"cpp-batch", look{color.RGBA{0x3f, 0xa3, 0x7a, 0xff}, draw.BoxGlyph{}}},
}

// lookOf is that of a server.
func lookOf(name string) look {
	i := slices.IndexFunc(looks, func(x struct {
		name string
		look
	},
	) bool {
		return x.name == name
	})
	if i < 0 {
		return look{ink, draw.CircleGlyph{}}
	}
	return looks[i].look
}

// lookAt is that of the i-th of lines or bars that are no servers.
func lookAt(i int) look { return looks[i%len(looks)].look }
