package model

import (
	"math"
	"math/rand/v2"
	"testing"

	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/must"
)

// TestExplain checks that the terms of an explanation add up to the score. The explained variance must be the variance
// of noisy scores, and each Fraction must be the term's fraction of this variance.
func TestExplain(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	const columns = 6
	for _, c := range []struct {
		name, noise string
		outputs     int
		pairs       bool
		mode        Standardize
	}{
		{"two classes", "dropout:0.3", 1, false, StandardizeNone},
		{"no noise", "none", 1, false, StandardizeNone},
		{"constant noise", "gaussian:0.5", 1, false, StandardizeNone},
		{"noise of counts", "poisson", 1, false, StandardizeNone},
		{"three classes", "dropout:0.5", 3, false, StandardizeNone},
		{"pairs", "dropout:0.5", 3, true, StandardizeNone},
		{"standardized", "dropout:0.5", 1, false, StandardizeAuto},
	} {
		schema := event.NewSchema(4, []string{"a", "b", "c"}[:max(2, c.outputs)], 0)
		m := &Linear{Head: Head{Schema: schema, Noise: c.noise, Outputs: c.outputs, Pairs: c.pairs, Layout: Layout{Width: ScalerWidth + c.outputs, Weight: ScalerWidth}}}
		m.Scaler = Scaler{Mode: c.mode}
		if c.mode != StandardizeNone {
			m.Scaler.Dense = []uint32{3}
		}
		m.Rows = NewTable(m.Layout.Width)
		for d := range uint32(columns - 1) { // the last column is not in the model
			row := m.Rows.Touch(d)
			row[StatCenter], row[StatInverse] = random.NormFloat64(), 1+random.Float64()
			for k := range c.outputs {
				row[ScalerWidth+k] = random.NormFloat64()
			}
		}
		for range c.outputs {
			m.Intercept = append(m.Intercept, random.NormFloat64())
		}
		e := &event.Example{Features: event.Vec{Index: []uint32{0, 2, columns - 1}, Value: []float64{1, -2, 3}}, Weight: 1}
		if c.noise == "poisson" {
			e.Features.Value[1] = 2 // Poisson noise needs nonnegative values
		}
		raw := make([]float64, c.outputs)
		linear := *m
		linear.Pairs = false // use the outputs as they are
		linear.Score(e, raw)
		noise, _ := loss.ParseNoise(c.noise)
		for class := range schema.Classes {
			x := m.Explain(e, class)
			want := 0.0
			switch {
			case c.pairs:
				for k, side := range [][]float64{{-1, -1, 0}, {1, 0, -1}, {0, 1, 1}}[class] {
					want += side * raw[k]
				}
			case c.outputs == 1:
				want = []float64{-1, 1}[class] * raw[0]
			default:
				want = raw[class]
			}
			sum, weights := x.Intercept, 0.0
			for _, term := range x.Terms {
				sum += term.Contribution
				weights += term.Fraction
				must.True(t, term.Known == (term.Column < columns-1), "%s: column %d known %v", c.name, term.Column, term.Known)
			}
			must.True(t, math.Abs(x.Score-want) <= 1e-12 && math.Abs(sum-want) <= 1e-12, "%s, class %d: score %v, terms add up to %v, want %v", c.name, class, x.Score, sum, want)
			c0, _, _ := noise.Coefficients()
			must.True(t, (c0 != 0 || math.Abs(weights-1) <= 1e-12) && weights <= 1, "%s: shares add up to %v", c.name, weights)
			if c0, _, _ := noise.Coefficients(); c0 > 0 {
				exact := 0.0
				for d := range uint32(columns) {
					exact += c0 * m.Weight(d, 0) * m.Weight(d, 0)
				}
				must.True(t, math.Abs(x.Variance-exact) <= 1e-12, "%s: variance %v, want %v", c.name, x.Variance, exact)
			}
			// Estimate the variance by drawing from the noise.
			const draws = 20_000
			sum, square := 0.0, 0.0
			for range draws {
				f := 0.0
				for _, term := range x.Terms {
					f += term.Weight * noise.Corrupt(term.Value, random)
				}
				if c0, _, _ := noise.Coefficients(); c0 > 0 { // draw noise for absent columns too
					for d := range uint32(columns) {
						if d != 0 && d != 2 && d != columns-1 {
							f += []float64{-1, 1}[class] * m.Weight(d, 0) * noise.Corrupt(0, random)
						}
					}
				}
				sum += f
				square += f * f
			}
			got := square/draws - sum*sum/draws/draws
			must.True(t, math.Abs(got-x.Variance) <= 0.05*x.Variance+1e-9, "%s, class %d: variance %v, drawn %v", c.name, class, x.Variance, got)
		}
	}
}

// TestExplainGroups checks that under group noise each term gets its part of the variance of its group.
func TestExplainGroups(t *testing.T) {
	schema := event.NewSchema(4, []string{"a", "b"}, 0)
	schema.ColumnGroups = &event.ColumnGroups{Every: 2}
	m := NewLinear(schema, "logistic", "dropout:0.2+group:0.3", [][]float64{{0.7, -1.5, 2}}, []float64{0.5})
	x := m.Explain(&event.Example{Features: event.Vec{Index: []uint32{0, 1, 2}, Value: []float64{1, 2, -0.5}}, Weight: 1}, 1)
	p := []float64{0.7, -3, -1}
	r, rg := 0.25, 0.3/0.7
	want := rg*((p[0]+p[1])*(p[0]+p[1])+p[2]*p[2]) + (1+rg)*r*(p[0]*p[0]+p[1]*p[1]+p[2]*p[2])
	weights := 0.0
	for _, term := range x.Terms {
		weights += term.Fraction
	}
	must.True(t, math.Abs(x.Variance-want) <= 1e-12 && math.Abs(weights-1) <= 1e-12, "variance %v, want %v; shares add up to %v", x.Variance, want, weights)
	last := x.Terms[len(x.Terms)-1]
	must.True(t, last.Column == 0 && last.Fraction < 0, "the part that makes up for its group's is %+v", last)
	m.Noise = "group:1-2=0.3" // group 1-2 alone can die
	got, want := m.Explain(&event.Example{Features: event.Vec{Index: []uint32{0, 1, 2}, Value: []float64{1, 2, -0.5}}, Weight: 1}, 1).Variance, rg*(p[0]+p[1])*(p[0]+p[1])
	must.True(t, math.Abs(got-want) <= 1e-12, "variance %v where one group has a rate, want %v", got, want)
}

// TestExplainProductOfGroups checks the variance of a product of two groups with separate rates: it must include the
// noise of both groups.
func TestExplainProductOfGroups(t *testing.T) {
	s := event.NewSchema(4, []string{"a", "b"}, 0)
	s.Crosses = [][2]string{{"front", "rear"}}
	for _, f := range []event.Field{{Name: "front", Kind: event.Numeric}, {Name: "rear", Kind: event.Numeric}, {Name: "front^rear", Kind: event.Cross}} {
		s.AddField(f)
	}
	m := NewLinear(s, "logistic", "dropout:0.2+group:front=0.5,rear=0.1", [][]float64{{0.7, -1.5, 2}}, []float64{0.5})
	x := m.Explain(&event.Example{Features: event.Vec{Index: []uint32{0, 1, 2}, Value: []float64{1, 2, -0.5}}, Field: []uint16{1, 2, 3}, Weight: 1}, 1)
	p := []float64{0.7, -3, -1}
	r, front, rear := 0.25, 1.0, 0.1/0.9
	want := front*(p[0]+p[2])*(p[0]+p[2]) + rear*(p[1]+p[2])*(p[1]+p[2]) + front*rear*p[2]*p[2] +
		r*((1+front)*p[0]*p[0]+(1+rear)*p[1]*p[1]+(1+front)*(1+rear)*p[2]*p[2])
	must.True(t, math.Abs(x.Variance-want) <= 1e-12, "variance %v, want %v", x.Variance, want)
}
