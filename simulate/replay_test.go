package simulate

import (
	"bytes"
	"context"
	"encoding/xml"
	"image"
	"image/color"
	_ "image/png"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"blankout/batch"
	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/internal/must"
)

func family(t *testing.T, s string) Family {
	t.Helper()
	return must.Get(ParseFamily(s))(t)
}

// TestReplay compares the measures of a Replay with counts that the test computes. Two replays, one of which uses a
// single goroutine, must write equal files.
func TestReplay(t *testing.T) {
	m, examples := stream(4, 600, 3)
	weights := make([]float64, 12)
	copy(weights, []float64{1, -1, 2})
	other := model.NewLinear(m.Schema, "logistic:gaussian", "none", [][]float64{weights, weights, weights, make([]float64, 12)}, []float64{0, 1, 2, 3})
	r := &Replay{
		Families:   []Family{family(t, "random:0,0.5"), family(t, "worst:1"), family(t, "noise:0.5@50%-100%")},
		Treatments: []Treatment{{Loss: model.LossDeclared}, {Loss: model.LossDeclared, Rescale: true}}, Repeat: 3, Seed: 11, Bins: 6,
	}
	subjects := []*Subject{{Name: "a", Examples: examples, Schema: m.Schema, Model: m}, {Name: "b", Examples: examples, Schema: m.Schema, Model: other}}
	result := must.Get(r.Run(context.Background(), subjects))(t)
	must.Require(t, len(result.Curves) == 3*(2+2), "%d curves", len(result.Curves))
	// Compare model b in the nightmare random:0.5, rescaled, with counts that use the masks of the corrupter.
	p := result.Curves[3].Points[1]
	for repeat := range 3 {
		wrong := 0.0
		c := batch.Corrupter{Noise: loss.Dropout{Q: 0.5}, Seed: 11}
		for n := range examples {
			x := examples[n].Features.Clone()
			c.Vec(x, nil, n, repeat)
			if other.Predict(other.ScoreVec(x, make([]float64, 4))) != examples[n].Label {
				wrong++
			}
		}
		want := 100 * wrong / 600
		must.True(t, math.Abs(p.Errors[repeat]-want) <= 1e-9, "%s, repetition %d: error %g, want %g", p.Nightmare, repeat, p.Errors[repeat], want)
	}
	mean, low, high := meanAndBounds(p.Errors)
	must.True(t, p.Error == mean && *p.Low == low && *p.High == high && math.Abs(p.Deleted-50) <= 2, "%+v", p)
	// The model from which the labels were computed can be wrong only on damaged events.
	window := result.Curves[2*(2+2)].Points[0]
	got := window.Time
	must.True(t, got[0] == 0 && got[2] == 0 && got[3] != 0 && got[5] != 0 && *window.Window == [2]int{300, 600}, "noise in the second half only: errors %v over time, window %v", got, window.Window)
	var files [2]string
	for i := range files {
		files[i] = filepath.Join(t.TempDir(), "out")
		r.Threads = 2 - i
		again := must.Get(r.Run(context.Background(), subjects))(t)
		must.True(t, reflect.DeepEqual(again, result), "another result at the second time")
		names, err := again.Save(files[i])
		must.Require(t, err == nil && len(names) == 2+2*4, "%v %v", names, err)
		for _, name := range names {
			data := must.Get(os.ReadFile(filepath.Join(files[i], name)))(t)
			before, err := os.ReadFile(filepath.Join(files[0], name))
			must.True(t, err == nil && bytes.Equal(data, before), "%s differs from replay to replay: %v", name, err)
		}
	}
}

func TestMeanAndBounds(t *testing.T) {
	// In R, t.test(c(1, 2, 4)) gives the 95 % interval from -1.4612 to 6.1279.
	mean, low, high := meanAndBounds([]float64{1, 2, 4})
	must.True(t, math.Abs(mean-7.0/3) <= 1e-12 && math.Abs(low+1.461249) <= 1e-5 && math.Abs(high-6.127916) <= 1e-5, "%g [%g, %g]", mean, low, high)
}

// TestDead checks a removed feature whose mean is far from 0. If it is declared missing it counts as its mean, and if
// it silently is 0 it misleads the model. A feature without a value for silently missing features counts as its center.
func TestDead(t *testing.T) {
	m, examples := stream(2, 400, 5)
	schema := m.Schema
	shifted := &model.Linear{Head: m.Head, Rows: model.NewTable(1 + model.ScalerWidth)}
	shifted.Scaler = model.Scaler{Mode: model.StandardizeAll}
	shifted.Layout = model.Layout{Width: 1 + model.ScalerWidth, Stats: 1}
	for i := range m.Rows.Len() {
		column, row := m.Rows.Column(i)
		copy(shifted.Rows.Touch(column), []float64{row[0], 100, 0, 0, 100, 0.5}) // sets center 100 and scale 2
	}
	for i := range examples {
		x := examples[i].Features.Value
		for j := range x {
			x[j] = 100 + 2*x[j]
		}
	}
	groups := map[string][]event.Span{"half": {{From: 0, To: 6}}}
	r := &Replay{Families: []Family{{"", []Level{{Group{Name: "half"}, nan}, {None{}, nan}}}}, Treatments: []Treatment{{Loss: model.LossDeclared}, {Loss: model.LossDead}}, Repeat: 1, Groups: groups}
	result := must.Get(r.Run(context.Background(), []*Subject{{Name: "m", Examples: examples, Schema: schema, Model: shifted}}))(t)
	knows := *shifted
	knows.Dead = &model.Dead{Columns: []uint32{0, 1, 2, 3, 4, 5}, Reads: []float64{0, 0, 0, 0, 0, 0}}
	if again, err := r.Run(context.Background(), []*Subject{{Name: "m", Examples: examples, Schema: schema, Model: &knows}}); err != nil {
		t.Fatal(err)
	} else if result.Curves[1].Points[0].Error != result.Curves[0].Points[0].Error || again.Curves[0].Points[0].Error != result.Curves[0].Points[0].Error {
		t.Error("a feature does not read its center")
	} else {
		result.Curves[1] = again.Curves[1]
	}
	for i, dead := range []float64{0, -4} { // (0 - 100)/2 is clipped
		wrong := 0.0
		for n := range examples {
			x := examples[n].Features.Clone()
			for j, column := range x.Index {
				x.Value[j] = (x.Value[j] - 100) / 2
				if column < 6 {
					x.Value[j] = dead
				}
			}
			if m.Predict(m.ScoreVec(x, make([]float64, 1))) != examples[n].Label {
				wrong++
			}
		}
		p := result.Curves[i].Points[0]
		must.True(t, math.Abs(p.Error-wrong/4) <= 1e-9 && wrong != 0, "%s: error %g, want %g", result.Curves[i].Treatment, p.Error, wrong/4)
		p = result.Curves[i].Points[1]
		must.True(t, p.Error == 0, "%s: error %g where nothing dies", result.Curves[i].Treatment, p.Error)
	}
	r.Families[0].Levels[0].Nightmare = Group{Name: "nobody"}
	must.ErrorContains(t, must.Err(r.Run(context.Background(), []*Subject{{Name: "m", Examples: examples, Schema: schema, Model: shifted}})), "nobody", "a group that nothing belongs to")
}

// TestSilentLoss checks which subjects the report names. It names the subject with the largest increase of the error
// that does not expect silently missing features, if that increase is large enough. It also names the best subject that
// expects them.
func TestSilentLoss(t *testing.T) {
	spline := func(name string, expects bool, treatment Treatment, errors ...float64) Curve {
		c := Curve{Subject: name, Nightmare: "random:0,0.5,0.7", Treatment: treatment, expects: expects}
		for i, x := range errors {
			c.Points = append(c.Points, Point{Nightmare: []string{"random:0", "random:0.5", "random:0.7"}[i], Deleted: []float64{0, 48, 71}[i], ClassErrors: &ClassErrors{Error: x}})
		}
		return c
	}
	declared, dead := Treatment{Loss: model.LossDeclared}, Treatment{Loss: model.LossDead}
	r := &Result{Curves: []Curve{
		spline("a", false, declared, 2, 10, 20), spline("a", false, declared, 2, 10, 20), spline("a", false, dead, 9, 18, 26),
		spline("b", true, declared, 2, 10, 20), spline("b", true, dead, 2, 21, 40), spline("c", true, declared, 2, 10, 20), spline("c", true, dead, 2, 12, 50),
	}}
	for i, want := range []string{
		"a at random:0.5: 18.0 % error if features are dead, 10.0 % error if they are declared missing; c, which expects dead features: 12.0 % error",
		"a at random:0.5: 18.0 % error if features are dead, 10.0 % error if they are declared missing; learner.silent_missing = 0.5 learns for dead features",
		"",
	} {
		must.Equal(t, r.SilentLoss().String(), want)
		if r.Curves = r.Curves[:3]; i == 1 {
			r.Curves[2] = spline("a", false, dead, 9, 10.9, 20.9)
		}
	}
	// The cost in a nightmare with a window is relative to the length of the window. For regression, errors are RMSEs.
	r.Events, r.Numbers, r.Curves = 1000, true, nil
	for _, treatment := range []Treatment{declared, dead} {
		c := Curve{Subject: "d", Treatment: treatment}
		c.Points = []Point{{Nightmare: "random:0.3@75%-150%", Window: &[2]int{750, 1500}, Deleted: 7.5, NumberErrors: &NumberErrors{RMSE: 1}}}
		if treatment == dead {
			c.Points[0].RMSE = 2
		}
		r.Curves = append(r.Curves, c)
	}
	got := r.SilentLoss()
	must.True(t, math.Abs(got.Missing-0.3) <= 1e-12 && got.String() == `d at random:0.3@75%-150%: an RMSE of 2 if features are dead, an RMSE of 1 if they are declared missing; `+
		`learner.silent_missing = 0.3 learns for dead features`, "%+v: %s", got, got)
	r.Numbers = false
	r.Curves = []Curve{spline("b", true, declared, 2, 10, 20), spline("b", true, dead, 2, 21, 40)}
	must.Equal(t, r.SilentLoss().String(), "b at random:0.7: 40.0 % error if features are dead, 20.0 % error if they are declared missing")
}

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
	for token := range must.All(t, xml.NewDecoder(bytes.NewReader(svg)).Token) {
		if c, ok := token.(xml.CharData); ok {
			out.Write(c)
		}
	}
	return out.String()
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
}
