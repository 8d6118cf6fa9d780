package browser

import (
	"bytes"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// small is a picture of 256 colours: a third of the bytes.
func small(t *testing.T, picture []byte) []byte {
	t.Helper()
	full, err := png.Decode(bytes.NewReader(picture))
	require.NoError(t, err)
	count := map[color.Color]int{}
	for y := range full.Bounds().Dy() {
		for x := range full.Bounds().Dx() {
			count[full.At(x, y)]++
		}
	}
	var palette color.Palette
	for c := range count {
		palette = append(palette, c)
	}
	key := func(c color.Color) uint64 {
		r, g, b, _ := c.RGBA()
		return uint64(count[c])<<24 | uint64(r>>8)<<16 | uint64(g>>8)<<8 | uint64(b>>8)
	}
	slices.SortFunc(palette, func(a, b color.Color) int {
		switch x, y := key(a), key(b); {
		case x > y:
			return -1
		case x < y:
			return 1
		}
		return 0
	})
	few := image.NewPaletted(full.Bounds(), distinct(palette))
	draw.Draw(few, few.Bounds(), full, image.Point{}, draw.Src)
	var out bytes.Buffer
	require.NoError(t, (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, few))
	return out.Bytes()
}

// distinct takes up to 256 colours, the first ones, but none that is nearly another.
func distinct(all color.Palette) (few color.Palette) {
	for _, c := range all {
		if len(few) == 256 {
			break
		}
		if len(few) == 0 || apart(c, few[few.Index(c)]) > 3*5*5 {
			few = append(few, c)
		}
	}
	return few
}

// apart is the square of the distance of two colours, in 256ths.
func apart(a, b color.Color) int {
	r1, g1, b1, _ := a.RGBA()
	r2, g2, b2, _ := b.RGBA()
	dr, dg, db := int(r1>>8)-int(r2>>8), int(g1>>8)-int(g2>>8), int(b1>>8)-int(b2>>8)
	return dr*dr + dg*dg + db*db
}
