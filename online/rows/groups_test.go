package rows

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/internal/must"
)

// slowVariance returns the variance of the noisy score of features. groups has the groups of each feature, and parts
// has the part of the score that each feature adds. The function sums the covariance over all pairs of features. The
// expectation of the product of two features' factors is the expectation of the squared factors of their common groups.
func slowVariance(n loss.GroupDropout, groups [][]string, parts []float64) (v float64) {
	for i, a := range parts {
		for j, b := range parts {
			square := 1.0
			for _, g := range groups[i] {
				if slices.Contains(groups[j], g) {
					square /= 1 - n.Rate(g)
				}
			}
			if i == j {
				square /= 1 - n.Q
			}
			v += a * b * (square - 1)
		}
	}
	return v
}

// TestGroupsAgainstTheSlowSum compares the variances of iterates and averages, and the gradients for an optimizer, with
// the results of slowVariance, by noise level and output. Reordering must keep each row together with its feature.
func TestGroupsAgainstTheSlowSum(t *testing.T) {
	const outputs = 2
	own := func(sensor, words float64) loss.Noise {
		return loss.GroupDropout{Rates: map[string]float64{"sensor": sensor, "words": words}}
	}
	for _, noises := range [][]loss.Noise{
		{loss.GroupDropout{Groups: 0.4}},
		{loss.Dropout{Q: 0.5}, loss.GroupDropout{Q: 0.3, Groups: 0.2}, loss.NoNoise{}, loss.GroupDropout{Q: 0.2, Groups: 0.7}},
		{own(0.6, 0.15)},
	} {
		schema := event.NewSchema(10, []string{"a", "b"}, outputs)
		schema.Fields = append(schema.Fields,
			event.Field{Name: "heat", Kind: event.Numeric, Group: "sensor"}, event.Field{Name: "state", Kind: event.Categorical, Group: "sensor"},
			event.Field{Name: "words", Kind: event.Words}, event.Field{Name: "state^words", Kind: event.Cross})
		schema.Crosses = [][2]string{{"state", "words"}}
		names := [][]string{{""}, {"sensor"}, {"sensor"}, {"words"}, {"sensor", "words"}} // groups by field

		g := NewGroups(model.NewGrouping(schema), noises, outputs, false)
		y := Layout{Outputs: outputs, N: len(noises) * outputs}
		strength := make([]float64, len(noises))
		for v, n := range noises {
			_, _, strength[v] = n.Coefficients()
		}
		s := NewStep(strength, outputs)
		lag, averages, coefficients := make([]float64, y.N), make([]float64, y.N), make([]float64, y.N)
		r := rand.New(rand.NewPCG(1, 2))
		random := func(n int) []float64 {
			x := must.List(n, func(int) float64 { return r.NormFloat64() })
			return x
		}
		for ev := range 200 {
			var e event.Example
			var groups [][]string
			s.Reset(0)
			for column := range uint32(14) {
				if r.IntN(3) == 0 {
					continue
				}
				field := uint16(r.IntN(len(names)))
				e.Features.Index, e.Field = append(e.Features.Index, column), append(e.Field, field)
				groups = append(groups, names[field])
				x := r.NormFloat64()
				s.Rows, s.X = append(s.Rows, random(FirstPart+3*y.N)), append(s.X, x)
				s.Basis, s.Ridge = append(s.Basis, x*x), append(s.Ridge, 0)
			}
			e.Features.Value = slices.Clone(s.X)
			features, x := slices.Clone(s.Rows), slices.Clone(s.X)
			g.Arrange(&s.Event, &e, e.Features.Index, &model.Scaler{})
			for i, row := range features {
				to := g.Row(i)
				must.Require(t, &s.Rows[to][0] == &row[0] && s.X[to] == x[i], "event %d: feature %d is not in row %d", ev, i, to)
			}
			s.AddIntercepts(random(FirstPart+3*y.N), 0)
			for j := range y.N {
				coefficients[j], s.DF[j], s.H[j] = r.Float64(), r.NormFloat64(), 2*r.Float64()
				s.Shrink[j] = s.H[j] * strength[j/outputs]
			}
			clear(s.F)
			clear(lag)
			g.Sum(&s.Event, FirstPart, y.N, s.F, lag)
			g.Averages(&s.Event, FirstPart, y.N, coefficients, averages)
			g.Segment(&s)
			gradients := make([][]float64, len(s.Rows))
			for _, part := range s.Segments {
				for i := part.From; i < part.To; i++ {
					for j, df := range part.DF {
						gradients[i] = append(gradients[i], df*s.X[i]+part.Shrink[j]*s.Basis[i]*y.Weights(s.Rows[i])[j])
					}
				}
			}
			for j := range y.N {
				noise := loss.AsGroups(noises[j/outputs])
				parts, average, f := make([]float64, len(features)), make([]float64, len(features)), 0.0
				for i, row := range features {
					parts[i] = x[i] * y.Weights(row)[j]
					average[i] = parts[i] + coefficients[j]*x[i]*y.Lags(row)[j]
					f += parts[i]
				}
				where := fmt.Sprintf("%v, event %d, index %d", noise, ev, j)
				near := func(what string, got, want, tolerance float64) {
					must.Require(t, math.Abs(got-want) <= tolerance*(1+math.Abs(want)), "%s: %s %v, want %v", where, what, got, want)
				}
				near("score", s.F[j], f, 1e-12)
				v := slowVariance(noise, groups, parts)
				near("variance", g.Variance[j], v, 1e-11)
				near("variance of the average", averages[j], slowVariance(noise, groups, average), 1e-11)
				for i := range features {
					// v is quadratic in a weight, so the central difference equals the derivative.
					was := parts[i]
					parts[i] = was + x[i]
					up := slowVariance(noise, groups, parts)
					parts[i] = was - x[i]
					down := slowVariance(noise, groups, parts)
					parts[i] = was
					near(fmt.Sprintf("gradient of feature %d", i), gradients[g.Row(i)][j], s.DF[j]*x[i]+s.H[j]/2*(up-down)/2, 1e-10)
				}
				sums := make([]float64, len(g.Keys(nil))*outputs)
				const share, pairs = 0.7, 0.4
				g.AddPublished(&s.Event, FirstPart, j-j%outputs, outputs, share, coefficients[j], pairs, sums)
				for i, of := range groups {
					want := 0.0
					for n, with := range groups {
						if len(of) == 1 && slices.Contains(with, of[0]) {
							want += share * average[n]
						} else if len(of) == 2 && len(with) == 2 {
							want += share * pairs * average[n]
						}
					}
					near(fmt.Sprintf("published sum of the group of feature %d", i), sums[g.GroupOf(i)*outputs+j%outputs], want, 1e-11)
				}
				near("gradient of the intercept", gradients[len(features)][j], s.DF[j], 0)
			}
		}
	}
}

// TestArrangeAroundSplines checks that the order of an event without groups and splines does not change. In other
// events the columns of each number with a spline must be consecutive.
func TestArrangeAroundSplines(t *testing.T) {
	splines := must.Get(model.NewSplines([]uint32{5, 9}, [][]float64{model.Present(), {0, 1, 2}}))(t)
	scaler := &model.Scaler{Splines: splines}
	g := NewGroups(model.NewGrouping(event.NewSchema(16, []string{"a", "b"}, 2)), []loss.Noise{loss.Dropout{Q: 0.5}}, 1, true)
	for _, c := range []struct {
		columns []uint32
		want    []int // row of each feature
		parts   int
	}{
		{[]uint32{1, 3, 7, 8, 12}, []int{0, 1, 2, 3, 4}, 1},
		{[]uint32{1, 5, 7, splines.BasisColumn(0, 0)}, []int{0, 2, 1, 3}, 2},
		{[]uint32{5, 9, splines.BasisColumn(0, 0), splines.BasisColumn(1, 1), splines.BasisColumn(1, 2)}, []int{0, 2, 1, 3, 4}, 2},
		{[]uint32{5, 6, 7}, []int{0, 1, 2}, 2},
	} {
		var s Event
		s.Reset(len(c.columns))
		e := &event.Example{Features: event.Vec{Index: c.columns, Value: make([]float64, len(c.columns))}}
		for i := range c.columns {
			s.Rows = append(s.Rows, []float64{float64(i)})
			s.X[i], s.Basis[i], s.Ridge[i] = float64(i), float64(10*i), float64(100*i)
		}
		g.Arrange(&s, e, c.columns, scaler)
		moves := !slices.IsSorted(c.want)
		must.True(t, g.mixed == moves && len(g.parts) == c.parts, "columns %v: moved %v, in %d parts, want %d", c.columns, g.mixed, len(g.parts), c.parts)
		for i, row := range c.want {
			if x := float64(i); g.Row(i) != row || s.Rows[row][0] != x || s.X[row] != x || s.Basis[row] != 10*x || s.Ridge[row] != 100*x {
				t.Errorf("columns %v: feature %d is row %d, want %d: %v %v %v %v", c.columns, i, g.Row(i), row, s.Rows, s.X, s.Basis, s.Ridge)
			}
		}
	}
}
