package optimizers

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout/internal/eventtest"
	"blankout/internal/longtest"
	"blankout/internal/loss"
	"blankout/internal/must"
	"blankout/online/rows"
)

// slowAdagrad makes a step of the optimizer adagrad directly from the formulas, one weight after another.
func slowAdagrad(r *adagrad, s *rows.Step) {
	root := math.Sqrt(s.InverseDecay)
	start, least := r.StartSum*s.InverseDecay, AdagradEps*root
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
	for i, l := range eventtest.Losses() {
		for noise, basis := range bases {
			for levels := 1; levels <= 8; levels++ {
				for _, outputs := range []int{1, 2, 3, 10} {
					for how := range 4 {
						if !longtest.Some(i+levels+outputs+how, 3) {
							continue
						}
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
	table := must.List((features+1)*width, func(int) float64 { return random() })
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
			must.Require(t, math.Float64bits(table[i]) == math.Float64bits(want[i]), "%s: event %d: value %d of row %d is %v, want %v", where, event, i%width, i/width, table[i], want[i])
		}
	}
}

// TestOptimizersKeepTheAverage checks that a step changes the lags opposite to the weights, so that averages stay. It
// must not change other parts of a row. No weight changes with learning rate 0, or for unlabeled events.
func TestOptimizersKeepTheAverage(t *testing.T) {
	for _, entry := range Table {
		for _, levels := range []int{1, 2} {
			for _, outputs := range []int{1, 3} {
				t.Run(fmt.Sprint(entry.Name, "/", levels, "/", outputs), func(t *testing.T) { testStep(t, entry, levels, outputs) })
			}
		}
	}
}

func testStep(t *testing.T, entry Entry, levels, outputs int) {
	r := rand.New(rand.NewPCG(1, 2))
	y := rows.Layout{Outputs: outputs, N: levels * outputs, Refresh: entry.Parts}
	logistic := must.Get(loss.Parse("logistic"))(t)
	rule := entry.Make(Settings{Layout: y, Loss: logistic, Eta: entry.Eta, Ridge: 0.1, StartSum: 1, Proximal: outputs == 1})
	strength := slices.Repeat([]float64{0.4}, levels)
	s := rows.NewStep(strength, outputs)
	const features = 7
	width := rows.FirstPart + (entry.Parts+1)*y.N // includes the refresh's sums
	table := make([][]float64, features+1)
	for i := range table {
		table[i] = make([]float64, width)
	}
	for event := range 40 {
		s.Reset(0)
		for i, row := range table[:features] {
			x := r.NormFloat64()
			s.Rows, s.X, s.Basis, s.Ridge = append(s.Rows, row), append(s.X, x), append(s.Basis, x*x), append(s.Ridge, 0.01*float64(i))
		}
		s.AddIntercepts(table[features], 0)
		s.Importance, s.Count, s.InverseDecay = 1, uint64(event+1), 1.5
		s.NoOvershoot = event%2 == 0
		for j := range y.N {
			s.Y[j], s.F[j], s.Variance[j] = float64(2*r.IntN(2)-1), r.NormFloat64(), r.Float64()
			_, df, dv := logistic.At(s.Y[j], s.F[j], s.Variance[j])
			s.DF[j], s.H[j], s.Shrink[j] = df, 2*dv, 2*dv*0.4
			s.MinusEta[j], s.Inverse[j] = -entry.Eta, 1+r.Float64()
		}
		rest := event%3 == 2 && entry.Sums // only the preconditioner changes
		if rest {
			clear(s.MinusEta)
		}
		s.Ungroup()
		was := make([][]float64, len(table))
		for i, row := range table {
			was[i] = slices.Clone(row)
		}
		unlabeled := event%5 == 4
		if unlabeled {
			rule.Unlabeled(&s)
		} else {
			rule.Step(&s)
		}
		for i, row := range table {
			must.Require(t, slices.Equal(row[:rows.FirstPart], was[i][:rows.FirstPart]), "event %d: the statistics of row %d have changed", event, i)
			must.Require(t, entry.Name == "irls" || slices.Equal(y.Curvature(row), y.Curvature(was[i])), "event %d: the refresh's sums of row %d have changed", event, i)
			for j, w := range y.Weights(row) {
				delta := w - y.Weights(was[i])[j]
				must.Require(t, !rest && !unlabeled || delta == 0, "event %d: the weight of row %d at %d has moved by %v", event, i, j, delta)
				got, want := y.Lags(row)[j], y.Lags(was[i])[j]-delta*s.Inverse[j]
				must.Require(t, math.Abs(got-want) <= 1e-12*(1+math.Abs(want)), "event %d, row %d at %d: lag %v, want %v", event, i, j, got, want)
			}
		}
	}
	must.Equal(t, y.Weights(table[0])[0] != 0, (entry.Name != "irls"), "weights moved")
}
