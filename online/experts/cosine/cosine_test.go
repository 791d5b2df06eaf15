package cosine_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/internal/must"
	"blankout/online/experts/cosine"
	"blankout/online/mixture"
)

// slow learns the weights by the definition, with the matrices A in full.
type slow struct {
	w [model.Cosines]float64
	a [model.Cosines / cosine.Block][cosine.Block][cosine.Block]float64
}

// solve returns A_i^-1 x of a block by Gaussian elimination.
func (s *slow) solve(i int, x []float64) []float64 {
	a, out := s.a[i], slices.Clone(x)
	for p := range out {
		for q := p + 1; q < len(out); q++ {
			by := a[q][p] / a[p][p]
			for k := range out {
				a[q][k] -= by * a[p][k]
			}
			out[q] -= by * out[p]
		}
	}
	for p := len(out) - 1; p >= 0; p-- {
		for k := p + 1; k < len(out); k++ {
			out[p] -= a[p][k] * out[k]
		}
		out[p] /= a[p][p]
	}
	return out
}

const halfLife = 500

func (s *slow) learn(x *cosine.Values, base, y float64) {
	f, h := base, 0.0
	var gain []float64
	for j, v := range x {
		f += s.w[j] * v
	}
	for i := range s.a {
		block := x[i*cosine.Block:][:cosine.Block]
		g := s.solve(i, block)
		for j, v := range block {
			h += v * g[j]
		}
		gain = append(gain, g...)
	}
	slope := func(f float64) float64 { return -y / (1 + math.Exp(y*f)) }
	df := slope(f)
	r := -df * y * (1 + df*y)
	if y*f < 0 {
		r = max(r, (slope(-f)-df)/(-2*f))
	}
	if d := -df * h; math.Abs(d) > 0.5 {
		r = max(r, (slope(f+d)-df)/d)
	}
	forgotten := min(cosine.Block*(1-math.Pow(2, -1.0/halfLife))*min(1, 4*r), 0.5)
	a := r - forgotten/h
	for j, g := range gain {
		s.w[j] -= df * g / (1 + a*h)
	}
	for i := range s.a {
		for p := range cosine.Block {
			for q := range cosine.Block {
				s.a[i][p][q] += a * x[i*cosine.Block+p] * x[i*cosine.Block+q]
			}
		}
	}
}

func draw(r *rand.Rand, b *model.CosineBasis, x *cosine.Values) {
	var z model.CosineNumbers
	for i := range b.Columns {
		z[i] = r.NormFloat64()
	}
	b.Values(&z, x)
}

// TestStepsByDefinition compares the weights of an Expert with those of the definition.
func TestStepsByDefinition(t *testing.T) {
	e, r := cosine.New(cosine.Settings{Loss: loss.LogisticGaussian{}, HalfLife: halfLife}, 1), rand.New(rand.NewPCG(1, 2))
	e.Follow([]uint32{3, 5, 8})
	var want slow
	for i := range want.a {
		for j := range cosine.Block {
			want.a[i][j][j] = cosine.Ridge
		}
	}
	var x cosine.Values
	sum := []float64{0}
	for range 300 {
		draw(r, e.Basis(), &x)
		e.Sum(&x, sum)
		expected := 0.0
		for j, v := range x {
			expected += want.w[j] * v
		}
		must.Require(t, math.Abs(sum[0]-expected) <= 1e-6*max(1, math.Abs(expected)), "sum %v, by the definition %v", sum[0], expected)
		base, y := r.NormFloat64(), float64(1-2*r.IntN(2))
		e.Learn(&x, []float64{base}, sum, []float64{y}, 1, 1)
		want.learn(&x, base, y)
	}
}

// TestRest checks that an Expert without a gain takes part in few events, and in all events when it gains.
func TestRest(t *testing.T) {
	e := cosine.New(cosine.Settings{Loss: loss.LogisticGaussian{}, HalfLife: halfLife}, 1)
	must.True(t, !e.Takes(1), "an expert without columns takes part")
	e.Follow([]uint32{1, 2})
	by := &mixture.Event{Outputs: 1, Active: 1, Label: 1}
	observe := func(both float64) {
		for range 500 {
			e.Observe(0, []float64{1}, []float64{both}, by)
		}
		for range 5000 {
			e.Apply(func(r int) bool { return r == 0 })
			e.Count()
		}
	}
	taken := func() int { return must.Count(6400, func(i int) bool { return e.Takes(uint64(i)) }) }
	if observe(-1); e.Factor(0) != 0 || taken() < 90 || taken() > 110 || e.Published() != nil {
		t.Errorf("an expert that loses has the factor %v and takes part in %d of 6400 events", e.Factor(0), taken())
	}
	observe(4)
	must.True(t, e.Factor(0) >= 0.9 && taken() == 6400 && e.Published() != nil, "an expert that gains has the factor %v and takes part in %d of 6400 events", e.Factor(0), taken())
}

// TestOutputsGrow checks that the scores of old classes stay when classes are added and merged.
func TestOutputsGrow(t *testing.T) {
	e, r := cosine.New(cosine.Settings{Loss: loss.LogisticGaussian{}, HalfLife: halfLife}, 1), rand.New(rand.NewPCG(3, 4))
	e.Follow([]uint32{1, 2})
	var x cosine.Values
	sum := []float64{0}
	for range 50 {
		draw(r, e.Basis(), &x)
		e.Sum(&x, sum)
		e.Learn(&x, []float64{0}, sum, []float64{1}, 1, 1)
	}
	e.Sum(&x, sum)
	e.Regroup([][]int{{^0}, {0}, nil, nil})
	grown := make([]float64, 4)
	if e.Sum(&x, grown); math.Abs(grown[0]+sum[0]) > 1e-12 || math.Abs(grown[1]-sum[0]) > 1e-12 || grown[2] != 0 || grown[3] != 0 || sum[0] == 0 {
		t.Errorf("one output %v, four outputs %v", sum, grown)
	}
	e.Regroup([][]int{{1}, {0, 2}})
	e.Sum(&x, grown[:2])
	must.True(t, math.Abs(grown[0]-sum[0]) <= 1e-12 && math.Abs(grown[1]+sum[0]/2) <= 1e-12, "one output %v, merged %v", sum, grown[:2])
}
