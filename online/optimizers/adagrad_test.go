package optimizers

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout/internal/loss"
	"blankout/online/rows"
)

// slowAdagrad makes a step of the optimizer adagrad directly from the formulas, one weight after another.
func slowAdagrad(r *adagrad, s *rows.Step) {
	root := math.Sqrt(s.InverseDecay)
	start, least := r.StartSum*s.InverseDecay, adagradEps*root
	n := r.count()
	fraction := slices.Repeat([]float64{1}, n)
	g, inverse := make([][]float64, len(s.Rows)), make([][]float64, len(s.Rows))
	for j := range n {
		kappa := 0.0
		for _, p := range s.Segments {
			for i := p.From; i < p.To; i++ {
				x := s.X[i]
				d := math.FMA(math.FMA(p.Shrink[j]*root, s.Basis[i], s.Ridge[i]*root), r.Weights(s.Rows[i])[j], p.DF[j]*root*x)
				v := rows.InverseRoot(start+math.FMA(d, d, r.Accumulators(s.Rows[i])[j]), least)
				g[i], inverse[i] = append(g[i], d), append(inverse[i], v)
				kappa = math.FMA(x*x, v, kappa)
			}
		}
		if r.Proximal || s.NoOvershoot {
			fraction[j] = Fraction(r.Loss, s, j, s.DF[j]*root/root, -s.MinusEta[j]*kappa*root)
		}
	}
	for i, row := range s.Rows {
		for j := range n {
			rate := s.MinusEta[j] * fraction[j]
			m, u := &r.Accumulators(row)[j], &r.Lags(row)[j]
			*m = math.FMA(g[i][j], g[i][j], *m)
			delta := rate * g[i][j] * inverse[i][j]
			r.Weights(row)[j] += delta
			*u = math.FMA(-delta, s.Inverse[j], *u)
		}
	}
}

// TestAdagradAgainstTheSlowStep checks that adagrad makes the same steps as slowAdagrad, bit by bit. It covers losses,
// noises, numbers of levels and outputs, and segments of rows.
func TestAdagradAgainstTheSlowStep(t *testing.T) {
	bases := map[string]func(x float64) float64{
		"no noise": func(float64) float64 { return 0 }, "square": func(x float64) float64 { return x * x },
		"linear": func(x float64) float64 { return max(x, 0) }, "constant": func(float64) float64 { return 3 },
	}
	for _, l := range loss.All() {
		for noise, basis := range bases {
			for levels := 1; levels <= 8; levels++ {
				for _, outputs := range []int{1, 2, 3, 10} {
					for how := range 4 {
						testSlowStep(t, fmt.Sprint(l, "/", noise, "/", levels, "/", outputs, "/", how), l, basis, levels, outputs, how)
					}
				}
			}
		}
	}
}

// testSlowStep makes some steps with 9 features and the intercepts. The bits of how select two options: rows are
// divided into segments, and the last outputs must not change.
func testSlowStep(t *testing.T, where string, l loss.Loss, basis func(x float64) float64, levels, outputs, how int) {
	cut, left := how&1 != 0, 0
	y := rows.Layout{Outputs: outputs, N: levels * outputs}
	if how&2 != 0 && levels > 1 {
		left = outputs
	}
	r := rand.New(rand.NewPCG(uint64(how), uint64(y.N)))
	rule := NewAdagrad(Settings{Layout: y, Left: left, Loss: l, StartSum: 1, Proximal: outputs == 1}).(*adagrad)
	slow := NewAdagrad(rule.Settings).(*adagrad)
	const features = 9
	s := rows.NewStep(slices.Repeat([]float64{0.4}, levels), outputs)
	random := func() float64 { return r.NormFloat64() * math.Exp(r.NormFloat64()) }
	width := rows.FirstPart + 3*y.N + 1
	table := make([]float64, (features+1)*width)
	for i := range table {
		table[i] = random()
	}
	for i := range features + 1 {
		for j := range y.N {
			table[i*width+rows.FirstPart+y.N+j] = math.Abs(random())
		}
	}
	for event := range 4 {
		s.Reset(0)
		for i := range features {
			x := random()
			s.Rows, s.X = append(s.Rows, table[i*width:][:width:width]), append(s.X, x)
			s.Basis, s.Ridge = append(s.Basis, basis(x)), append(s.Ridge, 0.01*float64(i))
		}
		s.AddIntercepts(table[features*width:][:width:width], 0)
		s.Importance, s.InverseDecay, s.NoOvershoot = 1, [2]float64{1, 1.5}[event&1], event&2 != 0
		for j := range y.N {
			s.Y[j], s.F[j], s.Variance[j] = float64(2*r.IntN(2)-1), random(), math.Abs(random())
			_, df, dv := l.At(s.Y[j], s.F[j], s.Variance[j])
			s.DF[j], s.H[j], s.Shrink[j] = df, 2*dv, 2*dv*0.4
			s.MinusEta[j], s.Inverse[j] = -0.3, 1+r.Float64()
		}
		s.Ungroup()
		if cut {
			own := func() (factors []float64) {
				for range y.N {
					factors = append(factors, random())
				}
				return factors
			}
			s.Segments = []rows.Segment{{From: 0, To: 0, DF: s.DF, Shrink: s.Shrink}, {From: 0, To: 4, DF: s.DF, Shrink: s.Shrink}, {From: 4, To: 5, DF: own(), Shrink: own()}, {From: 5, To: 10, DF: s.DF, Shrink: own()}}
			s.InverseDecay = 1 // InverseDecay multiplies only the factors of Groups
		}
		want, other := slices.Clone(table), s
		other.Rows = nil
		for i := range s.Rows {
			other.Rows = append(other.Rows, want[i*width:][:width:width])
		}
		slowAdagrad(slow, &other)
		rule.Step(&s)
		for i := range table {
			if math.Float64bits(table[i]) != math.Float64bits(want[i]) {
				t.Fatalf("%s: event %d: value %d of row %d is %v, want %v", where, event, i%width, i/width, table[i], want[i])
			}
		}
	}
}
