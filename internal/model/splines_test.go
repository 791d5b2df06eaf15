package model

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"blankout/internal/event"
	"blankout/internal/must"
)

// slowHats returns the value of every basis function ("hat") at x. It interpolates linearly between 1 at the knot of
// the basis function and 0 at the other knots.
func slowHats(knots []float64, x float64) []float64 {
	x = max(knots[0], min(x, knots[len(knots)-1]))
	out := make([]float64, len(knots))
	for j, at := range knots {
		if x == at {
			out[j] = 1
		}
		if j > 0 && x > knots[j-1] && x < at {
			out[j] = (x - knots[j-1]) / (at - knots[j-1])
		}
		if j+1 < len(knots) && x > at && x < knots[j+1] {
			out[j] = (knots[j+1] - x) / (knots[j+1] - at)
		}
	}
	return out
}

func TestBasisColumns(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		knots := must.List(3+r.IntN(MaxKnots-3), func(int) float64 { return math.Round(40 * r.NormFloat64()) })
		slices.Sort(knots)
		if knots = slices.Compact(knots); len(knots) < leastKnots {
			continue
		}
		c := must.Get(NewSplines([]uint32{7}, [][]float64{knots}))(t)
		xs := append(slices.Clone(knots), knots[0]-1, knots[len(knots)-1]+1e9, 60*r.NormFloat64(), 60*r.NormFloat64())
		for _, x := range xs {
			got := make([]float64, len(knots))
			hats := c.Append(event.Vec{}, event.Vec{Index: []uint32{3, 7}, Value: []float64{5, x}})
			must.Do(t, hats.Check())
			for i, column := range hats.Index {
				got[column-FirstBasisColumn] = hats.Value[i]
				must.True(t, hats.Value[i] != 0 && c.Source(column) == 7 && c.Of(column) == 0, "hat %d of column %d has the value %v", column, c.Source(column), hats.Value[i])
			}
			sum := 0.0
			for j, want := range slowHats(knots, x) {
				sum += got[j]
				must.True(t, math.Abs(got[j]-want) <= 1e-12, "knots %v: hat %d at %v is %v, want %v", knots, j, x, got[j], want)
			}
			must.True(t, math.Abs(sum-1) <= 1e-12, "knots %v: the hats at %v sum to %v", knots, x, sum)
		}
	}
}

// TestKnotsOf expects the numbers that numpy returns: np.quantile([0, 1, 1, 2, 4, 8, 8, 16, 30], np.linspace(0, 1, 5)).
func TestKnotsOf(t *testing.T) {
	for _, c := range []struct {
		readings []float64
		n        int
		want     []float64
	}{
		{[]float64{0, 1, 1, 2, 4, 8, 8, 16, 30}, 5, []float64{0, 1, 4, 8, 30}},
		{[]float64{0, 1, 2, 3, 4, 5}, 3, []float64{0, 2.5, 5}},
		{[]float64{1, 1, 2, 2, 5}, 8, []float64{1, 2, 5}},          // few different readings: all are knots
		{[]float64{0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4}, 4, nil}, // knots 0 and 4 give only a line
		{[]float64{0, 1, 0}[:2], 8, nil},                           // only a line
		{nil, 8, nil},
	} {
		must.EqualSlices(t, KnotsOf(c.readings, c.n), c.want, "KnotsOf(", c.readings, c.n)
	}
}

// curvedModel returns a model of one number with a spline and of one word.
func curvedModel() (*Linear, []float64) {
	s := event.NewSchema(10, []string{"a", "b"}, 2)
	s.AddField(event.Field{Name: "t", Kind: event.Numeric})
	s.AddField(event.Field{Name: "w", Kind: event.Words})
	knots := []float64{-1, 0, 2, 10}
	m := NewLinear(s, "logistic", "dropout:0.3", [][]float64{{0, 0, 0, 0, 0, 0.25, 0, 0, -2}}, []float64{0.5})
	m.Scaler.Splines = &Splines{Columns: []uint32{5}, Knots: [][]float64{knots}}
	heights := []float64{3, -1, 4, 2}
	for j, h := range heights {
		m.Rows.Touch(m.Scaler.Splines.BasisColumn(0, j))[0] = h
	}
	return m, heights
}

func TestSplinesInScores(t *testing.T) {
	m, heights := curvedModel()
	for _, x := range []float64{-5, -1, -0.25, 0, 1, 9, 10, 1e6} {
		e := &event.Example{Features: event.Vec{Index: []uint32{5, 8}, Value: []float64{x, 1}}, Field: []uint16{1, 2}, Label: 0, Weight: 1}
		want := 0.5 + 0.25*x - 2
		for j, hat := range slowHats(m.Scaler.Splines.Knots[0], x) {
			want += hat * heights[j]
		}
		got := m.Score(e, make([]float64, 2))[0]
		must.True(t, math.Abs(got-want) <= 1e-9*max(1, math.Abs(want)), "at %v the score is %v, want %v", x, got, want)
		std := m.Standardized(e, event.Vec{})
		must.Equal(t, m.ScoreVec(std, make([]float64, 2))[0], got, "at", x, "ScoreVec")
		// Standardizing twice must not add the spline columns twice.
		twice := m.Standardized(&event.Example{Features: std}, event.Vec{})
		must.True(t, slices.Equal(twice.Index, std.Index), "standardized twice: columns %v, once %v", twice.Index, std.Index)
		fields := m.Scaler.FieldsOf(e, std.Index, nil)
		must.True(t, fields[len(fields)-1] == 1 && fields[0] == 1 && fields[1] == 2, "fields %v of columns %v", fields, std.Index)
		x1 := m.Explain(e, 1)
		sum := x1.Intercept
		for _, term := range x1.Terms {
			sum += term.Contribution
			must.True(t, term.Column < FirstBasisColumn, "a hat is a term of its own: %+v", term)
		}
		must.True(t, math.Abs(sum-got) <= 1e-9*max(1, math.Abs(got)) && len(x1.Terms) == 2, "at %v the terms %+v sum to %v, want %v", x, x1.Terms, sum, got)
		number := want - 0.5 + 2
		v := 3.0 / 7 * (number*number + 4)
		must.True(t, math.Abs(x1.Variance-v) <= 1e-9*max(1, v), "at %v the variance is %v, want %v: number and curve die together", x, x1.Variance, v)
		dead := make([]bool, std.Len())
		dead[0] = true
		m.Scaler.Splines.Follow(std.Index, dead)
		must.True(t, !dead[1] && !slices.Contains(dead[2:], false), "dead are %v of %v", dead, std.Index)
	}
	null := &event.Example{Features: event.Vec{Index: []uint32{8}, Value: []float64{1}}, Field: []uint16{2}, Missing: []uint16{1}}
	must.Equal(t, m.ScoreRescaled(null, 1, make([]float64, 2))[0], -1.5, "without the number the score")
	name := m.Namer()(m.Scaler.Splines.BasisColumn(0, 2))
	must.True(t, strings.HasSuffix(name, "@2"), "a hat is called %q", name)
}

func TestSplinesInFiles(t *testing.T) {
	m, _ := curvedModel()
	blocks := func() []event.Block {
		each := must.Get(m.EachBlock())(t)
		return slices.Collect(each)
	}
	read := must.Get(ReadLinear(blocks()))(t)
	e := &event.Example{Features: event.Vec{Index: []uint32{5}, Value: []float64{1.5}}, Field: []uint16{1}}
	a, b := m.Score(e, make([]float64, 2))[0], read.Score(e, make([]float64, 2))[0]
	must.True(t, a == b, "the score is %v, of the model that was read %v", a, b)
	for _, bad := range []Splines{
		{Columns: []uint32{5, 5}, Knots: [][]float64{{1, 2, 3}, {1, 2, 3}}},
		{Columns: []uint32{5}, Knots: [][]float64{{1, 2}}},
		{Columns: []uint32{5}, Knots: [][]float64{{1, 3, 2}}},
		{Columns: []uint32{5}},
		{Columns: []uint32{FirstBasisColumn}, Knots: [][]float64{{1, 2, 3}}},
	} {
		m.Scaler.Splines = &bad
		must.Fails(t, must.Err(ReadLinear(blocks())), "curves", bad, "are taken")
	}
}

// TestDrawnSplinesAreTheScores checks that a DrawnSpline equals the difference between the scores of events that differ
// only in its number. The test covers one output, many outputs, and a transform. Changing a weight or a knot must
// change the DrawnSpline.
func TestDrawnSplinesAreTheScores(t *testing.T) {
	for _, classes := range []int{2, 3} {
		for _, inverse := range []float64{0.5, packUnit(0.5, 2)} { // without a transform, and with asinh
			names, weights := []string{"a", "b", "c"}[:classes], [][]float64{make([]float64, 9), make([]float64, 9), make([]float64, 9)}
			outputs := must.Either(classes == 2, 1, classes)
			s := event.NewSchema(10, names, classes)
			s.AddField(event.Field{Name: "t", Kind: event.Numeric})
			m := NewLinear(s, "logistic", "dropout:0.3", weights[:outputs], make([]float64, outputs))
			m.Rows = NewTable(outputs + ScalerWidth)
			m.Layout = Layout{Width: outputs + ScalerWidth, Stats: outputs}
			m.Scaler = Scaler{Mode: StandardizeAuto, Splines: &Splines{Columns: []uint32{5, 7}, Knots: [][]float64{{-1, 0.3, 2, 10}, Present()}}}
			r := rand.New(rand.NewPCG(3, 4))
			for _, column := range []uint32{5, 7, 8, FirstBasisColumn, FirstBasisColumn + 1, FirstBasisColumn + 2, FirstBasisColumn + 3, FirstBasisColumn + MaxKnots} {
				row := m.Rows.Touch(column)
				for k := range outputs {
					row[k] = r.NormFloat64()
				}
				row[outputs+StatInverse] = 1
				if column == 5 {
					row[outputs+StatCenter], row[outputs+StatInverse] = 0.7, inverse
				}
			}
			drawn := func() DrawnSpline {
				list := slices.Collect(m.DrawnSplines())
				// a presence column is not drawn
				must.Require(t, len(list) == 1 && list[0].Column == 5, "drawn are %+v", list)
				return list[0]
			}
			score := func(x float64) []float64 {
				out := m.Score(&event.Example{Features: event.Vec{Index: []uint32{5, 7, 8}, Value: []float64{x, 3, 1}}, Field: []uint16{1, 0, 0}}, make([]float64, max(2, outputs)))
				return slices.Clone(out)
			}
			d := drawn()
			want := map[bool]int{true: 4, false: 3*splineDigits + 1}[inverse > 0]
			must.Require(t, len(d.X) == want && len(d.Added) == outputs, "%d places of %d classes, want %d of %d", len(d.X), len(d.Added), want, outputs)
			for k, of := range d.Added {
				must.Equal(t, of.Class, names[len(names)-outputs+k], "output", k)
				for i, x := range d.X {
					for j := range i {
						got, want := of.Score[i]-of.Score[j], score(x)[k]-score(d.X[j])[k]
						must.True(t, math.Abs(got-want) <= 1e-12, "output %d from %v to %v: drawn %v, scored %v", k, d.X[j], x, got, want)
					}
				}
			}
			m.Rows.Touch(FirstBasisColumn + 1)[0] += 0.25
			moved := drawn()
			if at := slices.Index(d.X, 0.3); math.Abs(moved.Added[0].Score[at]-d.Added[0].Score[at]-0.25) > 1e-12 || moved.Added[0].Score[0] != d.Added[0].Score[0] {
				t.Errorf("a weight moved at .3: drawn is %v, was %v", moved.Added[0].Score, d.Added[0].Score)
			}
			m.Scaler.Splines.Knots[0][1] = 0.6
			now := drawn()
			must.True(t, !slices.Equal(now.X, moved.X) && !slices.Equal(now.Added[0].Score, moved.Added[0].Score), "a knot moved to .6: drawn is still %v", now)
		}
	}
}
