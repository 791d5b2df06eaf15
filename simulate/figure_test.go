package simulate

import (
	"bytes"
	"encoding/xml"
	"image"
	"image/color"
	_ "image/png"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"blankout/internal/must"
)

// figures has a Figure of each kind.
var figures = map[string]Figure{
	"lines": {Title: "Error against deletion", X: "features deleted (%)", Y: "error (%)", Series: []Series{
		{Name: "one model", X: []float64{0, 25, 50, 75}, Y: []float64{5, 9, 20, 45}, Low: []float64{4, 8, 18, 41}, High: []float64{6, 10, 22, 49}},
		{Name: "another, with a gap", X: []float64{0, 25, 50, 75}, Y: []float64{6, math.NaN(), 15, 30}},
		{Name: "a limit", Form: BareLine, X: []float64{0, 75}, Y: []float64{12, 12}, Dashed: true},
	}, Marks: []Mark{{40, "something happens"}}},
	"bars": {Y: "error (%)", Categories: []string{"first", "second", "third"}, Series: []Series{
		{Name: "L2", Form: Bars, Y: []float64{30, 20, 10}, Low: []float64{28, 18, 9}, High: []float64{32, 22, 11}},
		{Name: "dropout", Form: Bars, Y: []float64{25, 18, 8}},
	}},
	"scatter": {X: "copies", Y: "error (%)", LogX: true, LogY: true, Series: []Series{
		{Form: Points, X: []float64{1, 10, 100}, Y: []float64{30, 20, 15}, Low: []float64{28, 18, 14}, High: []float64{32, 22, 16}},
	}},
}

// TestFigure draws every kind of figure twice and checks that the bytes are equal. The PNG must contain the colors of
// the palette, and the SVG must contain every text.
func TestFigure(t *testing.T) {
	for name, f := range figures {
		t.Run(name, func(t *testing.T) {
			var files [2]map[string][]byte
			for i := range files {
				base := filepath.Join(t.TempDir(), name)
				must.Do(t, f.Save(base))
				files[i] = map[string][]byte{}
				for _, ending := range []string{".png", ".svg"} {
					files[i][ending] = must.Get(os.ReadFile(base + ending))(t)
				}
			}
			for ending, data := range files[0] {
				must.True(t, bytes.Equal(data, files[1][ending]), "two drawings of one figure differ in %s", ending)
			}
			picture, _ := must.Get2(image.Decode(bytes.NewReader(files[0][".png"])))(t)
			found := map[color.NRGBA]int{}
			for y := range picture.Bounds().Dy() {
				for x := range picture.Bounds().Dx() {
					found[color.NRGBAModel.Convert(picture.At(x, y)).(color.NRGBA)]++
				}
			}
			for i, s := range f.Series {
				c := f.color(i)
				must.True(t, found[c] >= 40, "series %q: %d pixels of its color", s.Name, found[c])
			}
			words := texts(t, files[0][".svg"])
			want := append([]string{f.Title, f.X, f.Y}, f.Categories...)
			for _, s := range f.Series {
				want = append(want, s.Name)
			}
			for _, m := range f.Marks {
				want = append(want, m.Name)
			}
			for _, w := range want {
				must.True(t, strings.Contains(words, w), "the figure does not say %q", w)
			}
		})
	}
}

// texts returns all text in an SVG file. It fails the test if the file is not valid XML.
func texts(t *testing.T, svg []byte) string {
	var out strings.Builder
	d := xml.NewDecoder(bytes.NewReader(svg))
	for {
		token, err := d.Token()
		if err == io.EOF {
			return out.String()
		}
		must.Do(t, err)
		if c, ok := token.(xml.CharData); ok {
			out.Write(c)
		}
	}
}

func TestFigureRefuses(t *testing.T) {
	base := filepath.Join(t.TempDir(), "figure")
	for want, f := range map[string]Figure{
		"2 values at 3 places":    {Series: []Series{{X: []float64{1, 2, 3}, Y: []float64{1, 2}}}},
		"0 upper bounds":          {Series: []Series{{Y: []float64{1, 2}, Low: []float64{1, 2}}}},
		"has no place on a logar": {LogY: true, Series: []Series{{Y: []float64{1, 0}}}},
	} {
		must.ErrorContains(t, f.Save(base), want)
	}
	must.Fails(t, new(Figure).SaveAs(base+".gif"), "a figure without a known ending was saved")
}
