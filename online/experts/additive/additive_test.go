package additive

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"blankout/internal/coder"
	"blankout/internal/eventtest"
	"blankout/internal/loss"
	"blankout/internal/must"
	"blankout/online/encode"
	"blankout/online/experts"
	"blankout/online/experts/newton"
)

// slow is a simple, slow implementation of an Expert with one learning rate and one output.
type slow struct {
	loss           loss.Loss
	rate, strength float64
	w, sums        map[int]float64 // weights and sums of squares by index of the column; -1 is the intercept
}

// learn makes a proximal step of AdaGrad for an event. It returns the score before the step.
func (s *slow) learn(places []int, x []float64, base, y, importance float64) float64 {
	f, v := base+s.w[-1], 0.0
	for n, at := range places {
		f += s.w[at] * x[n]
		v += s.strength * s.w[at] * s.w[at] * x[n] * x[n]
	}
	_, df, dv := s.loss.At(y, f, v)
	if df-df != 0 || dv-dv != 0 {
		return f
	}
	g := map[int]float64{-1: importance * df}
	kappa := 1 / (math.Sqrt(s.sums[-1]+g[-1]*g[-1]) + 1e-8)
	for n, at := range places {
		g[at] = importance * (df*x[n] + 2*dv*s.strength*x[n]*x[n]*s.w[at])
		kappa += x[n] * x[n] / (math.Sqrt(s.sums[at]+g[at]*g[at]) + 1e-8)
	}
	// a is the solution of df(f - rate a df kappa) = a df, found by bisection. For short steps a linear approximation
	// gives a.
	a := 1 / (1 + max(2*importance*dv, 0)*s.rate*kappa)
	if math.Abs(importance*df)*s.rate*kappa >= 0.1 {
		low, high := 0.0, 1.0
		for range 60 {
			a = (low + high) / 2
			_, d, _ := s.loss.At(y, f-a*importance*df*s.rate*kappa, v)
			if d/df < a {
				high = a
			} else {
				low = a
			}
		}
	}
	for at, g := range g {
		s.sums[at] += g * g
		s.w[at] -= a * s.rate * g / (math.Sqrt(s.sums[at]) + 1e-8)
	}
	return f
}

// TestLearnsAgainstSlowVersion checks that an Expert learns like slow at every rate and output.
func TestLearnsAgainstSlowVersion(t *testing.T) {
	for _, l := range eventtest.Losses() {
		if !newton.Wanted(l) || l.Facts().Target != loss.Sign {
			continue
		}
		for _, outputs := range []int{1, 3} {
			for _, strength := range []float64{0, 0.4} {
				t.Run(fmt.Sprintf("%v, %d outputs, strength %v", l, outputs, strength), func(t *testing.T) {
					compare(t, l, outputs, strength)
				})
			}
		}
	}
}

func compare(t *testing.T, l loss.Loss, outputs int, strength float64) {
	e := newTested(l, strength, outputs, 2, 5, 9, 11)
	var slows []*slow
	for range outputs * len(Rates) {
		slows = append(slows, &slow{l, Rates[len(slows)/outputs], strength, map[int]float64{}, map[int]float64{}})
	}
	r := rand.New(rand.NewPCG(1, uint64(outputs)))
	base, y, active := make([]float64, outputs), make([]float64, outputs), max(1, outputs-1)
	for event := range 60 {
		var places []int
		var x []float64
		for at := range 4 {
			if r.IntN(4) > 0 {
				places, x = append(places, at), append(x, r.NormFloat64())
			}
		}
		for k := range base {
			base[k], y[k] = 0.3*r.NormFloat64(), float64(2*r.IntN(2)-1)
		}
		importance := []float64{1, 1, 0.5}[event%3]
		scores := e.Score(places, x, base)
		e.learn(y, active, importance)
		for j, s := range slows {
			rate, k := j/outputs, j%outputs
			if k >= active {
				continue
			}
			want := s.learn(places, x, base[k], y[k], importance)
			// Expert computes a to within 1 % only.
			near := func(got, want float64) bool { return math.Abs(got-want) <= 0.02*(1+math.Abs(want)) }
			got := scores[j]
			must.Require(t, near(got, want), "event %d, rate %v, output %d: score %v, want %v", event, Rates[rate], k, got, want)
			// Copy the Expert's weights to slow before the next event, so that rounding errors of the factor a do not
			// add up.
			squares := func(i int) float64 {
				_, squares := e.block.row(i)
				return float64(squares[j])
			}
			b := e.Intercept(rate, k)
			must.Require(t, near(b, s.w[-1]), "event %d, rate %v, output %d: intercept %v, want %v", event, Rates[rate], k, b, s.w[-1])
			s.w[-1], s.sums[-1] = e.Intercept(rate, k), squares(len(e.columns))
			for at := range e.columns {
				w := float64(e.Weights(rate, at)[k])
				must.Require(t, near(w, s.w[at]), "event %d, rate %v, output %d: weight %d is %v, want %v", event, Rates[rate], k, at, w, s.w[at])
				s.w[at], s.sums[at] = w, squares(at)
			}
		}
	}
	for k := active; k < outputs; k++ {
		must.True(t, e.Intercept(0, k) == 0, "output %d, which is not in use, has learned %v", k, e.Intercept(0, k))
	}
}

// taught returns a trained expert with two columns. It also returns a function that computes an expert's scores of x.
func taught(outputs int) (*tested, func(e *tested, x []float64) []float64) {
	e := newTested(loss.LogisticGaussian{}, 0.1, outputs, 3, 8)
	r := rand.New(rand.NewPCG(5, 6))
	base, y := make([]float64, outputs), make([]float64, outputs)
	for range 200 {
		x := []float64{0.1 * r.NormFloat64(), 0.1 * r.NormFloat64()}
		for k := range y {
			y[k] = math.Copysign(1, x[0]+0.1*r.NormFloat64())
		}
		e.Score([]int{0, 1}, x, base)
		e.learn(y, outputs, 1)
	}
	return e, func(e *tested, x []float64) []float64 {
		return e.Score([]int{0, 1}, x, make([]float64, e.outputs))[:e.outputs]
	}
}

// TestRestarts checks that an expert whose scores are not finite restarts.
func TestRestarts(t *testing.T) {
	e, _ := taught(1)
	e.Weights(0, 0)[0] = float32(math.Inf(1))
	e.Score([]int{0, 1}, []float64{1, 1}, []float64{0})
	e.learn([]float64{1}, 1, 1)
	must.True(t, e.Weights(0, 0)[0] == 0 && len(e.columns) == 2, "weight %v of columns %v", e.Weights(0, 0)[0], e.columns)
}

// kinked is a loss without a slope or a curvature at some targets.
type kinked struct{ loss.LogisticGaussian }

func (kinked) At(y, f, v float64) (value, df, dv float64) {
	switch y {
	case 2:
		return 1, math.NaN(), 0.1
	case 3:
		return 1, 0.1, math.NaN()
	case 4:
		return 1, math.Inf(1), 0.1
	case 5:
		return 1, 0.1, math.Inf(1)
	}
	return loss.LogisticGaussian{}.At(y, f, v)
}

// TestKinksChangeNothing checks that an event whose loss has no slope or no curvature changes no weight.
func TestKinksChangeNothing(t *testing.T) {
	e := newTested(kinked{}, 0.1, 1, 7)
	learn := func(y float64) {
		e.Score([]int{0}, []float64{1.5}, []float64{0.2})
		e.learn([]float64{y}, 1, 1)
	}
	for range 10 {
		learn(1)
	}
	state := func() []byte {
		c := &coder.Coder{}
		e.State(c)
		return c.Out
	}
	before := state()
	for y := 2.0; y <= 5; y++ {
		learn(y)
		must.Require(t, slices.Equal(before, state()), "target %v: the state has changed", y)
	}
	learn(1)
	must.True(t, !slices.Equal(before, state()), "an event that is at no kink changes nothing")
}

// TestKernels checks that the loops of this processor have the bits of the loops in Go, for all numbers of features and
// groups of lanes, also where nothing has been learned.
func TestKernels(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 3))
	random := func() float32 { return float32(r.NormFloat64() * math.Exp(3*r.NormFloat64())) }
	for range 400 {
		rows, groups := 1+r.IntN(20), 1+r.IntN(3)
		b := newBlock(rows, groups*lanesAtOnce-r.IntN(lanesAtOnce))
		for i := range b.weights {
			if r.IntN(4) > 0 {
				b.weights[i], b.squares[i] = random(), random()*random()
				b.squares[i] = max(b.squares[i], -b.squares[i])
			}
		}
		slow := block{b.lanes, append([]float32(nil), b.weights...), append([]float32(nil), b.squares...)}
		var f features
		for i := range rows {
			if r.IntN(3) > 0 {
				f.index, f.x, f.basis = append(f.index, i), append(f.x, random()), append(f.basis, random())
			}
		}
		from := lanesAtOnce * r.IntN(groups)
		var sums [lanesAtOnce]float64
		var variances, kappa, kappaGo, rate [lanesAtOnce]float32
		x := must.List(len(f.x), func(int) float64 { return r.NormFloat64() })
		sumGo(slow.weights[from:], f.index, x, slow.lanes, &sums)
		varianceGo(slow.weights[from:], &f, slow.lanes, &variances)
		out, q := make([]float64, b.lanes), make([]float64, b.lanes)
		b.sum(f.index, x, out)
		b.variance(&f, q)
		for l := range sums {
			must.Require(t, sums[l] == out[from+l] && float64(variances[l]) == q[from+l], "lane %d: sums %v and %v, want %v and %v", l, out[from+l], q[from+l], sums[l], variances[l])
		}
		var by factors
		for l := range rate {
			by.df[l], by.shrink[l], rate[l] = random(), random(), random()
		}
		steps, stepsGo := make([]float32, len(f.index)*lanesAtOnce), make([]float32, len(f.index)*lanesAtOnce)
		b.gradients(&f, from, &by, steps, &kappa)
		gradientsGo(slow.weights[from:], slow.squares[from:], &f, slow.lanes, &by, stepsGo, &kappaGo)
		b.descend(&f, from, &rate, steps)
		descendGo(slow.weights[from:], &f, slow.lanes, &rate, stepsGo)
		must.Require(t, kappa == kappaGo && reflect.DeepEqual(steps, stepsGo) && reflect.DeepEqual(b, slow),
			"%d features, lanes from %d: kappa %v, want %v", len(f.index), from, kappa, kappaGo)
	}
}

// tested is an Expert with the event that it is to learn next.
type tested struct {
	*Expert
	in           experts.Input
	base, scores []float64
}

func newTested(l loss.Loss, strength float64, outputs int, columns ...uint32) *tested {
	e := &tested{Expert: New(l, strength, outputs)}
	e.Follow(columns, len(columns))
	return e
}

// Score scores an event. It returns the scores by rate and output.
func (e *tested) Score(index []int, x, base []float64) []float64 {
	e.in, e.base, e.scores = experts.Input{Index: index, X: x, One: 1}, base, make([]float64, len(e.q))
	e.Sum(&e.in, e.scores)
	for j := range e.scores {
		e.scores[j] += base[j%e.outputs]
	}
	return slices.Clone(e.scores)
}

// learn learns the event that was scored last.
func (e *tested) learn(y []float64, active int, importance float64) {
	e.Learn(&e.in, e.base, e.scores, y, active, importance)
}

// Weights returns the weights of a column at a learning rate, by output.
func (e *tested) Weights(rate, i int) []float32 {
	weights, _ := e.block.row(i)
	return weights[rate*e.outputs:][:e.outputs]
}

// Intercept returns the intercept of a rate and output.
func (e *tested) Intercept(rate, k int) float64 {
	return float64(e.Weights(rate, len(e.columns))[k])
}

// TestMove checks that Move changes no score, and changes nothing if it would extrapolate too far. It must set the weights of a
// column that is renewed to 0.
func TestMove(t *testing.T) {
	e, score := taught(2)
	was, weight := score(e, []float64{0.5, 0.2}), e.Weights(0, 0)[0]
	e.Move(&encode.Move{Column: 3, Ratio: 1.01, Shift: 0.001})
	got := score(e, []float64{(0.5 - 0.001) / 1.01, 0.2})
	must.True(t, math.Abs(got[1]-was[1]) <= 1e-6 && e.Weights(0, 0)[0] != weight, "the score was %v, is %v", was, got)
	weight, intercept := e.Weights(0, 0)[0], e.Intercept(0, 0)
	e.Move(&encode.Move{Column: 3, Ratio: 1, Shift: 5})
	must.True(t, e.Weights(0, 0)[0] == weight && e.Intercept(0, 0) == intercept, "the intercept has gone from %v to %v", intercept, e.Intercept(0, 0))
	e.Move(&encode.Move{Column: 4, Ratio: 2, Shift: 1}) // not a column of the expert
	e.Move(&encode.Move{Column: 3, Renews: true})
	if got := e.Weights(1, 0); got[0] != 0 || got[1] != 0 {
		t.Errorf("weights of a column that is renewed: %v", got)
	}
}

func TestStateIsChecked(t *testing.T) {
	for _, columns := range [][]uint32{{3, 3}, {4, 2}, make([]uint32, 30_000)} {
		c := &coder.Coder{}
		c.Uint32s(&columns)
		d := coder.Read(c.Out)
		New(loss.LogisticGaussian{}, 0, 1).State(d)
		must.True(t, d.Failed, "%d columns are taken", len(columns))
	}
}

// TestNoSubnormals checks that squares of gradients are 0 or normal numbers, and that values are within bounds. With other
// numbers a processor is a hundred times slower.
func TestNoSubnormals(t *testing.T) {
	const leastNormal = 1.1754944e-38
	for exponent := -30; exponent <= 30; exponent++ {
		x := math.Pow(10, float64(exponent))
		a, b := single(x), single(-x)
		must.True(t, a == -b && (math.Abs(float64(a)-min(x, mostValue)) <= 1e-7*x || a == 0 && x < leastValue), "%v becomes %v, its negative %v", x, a, b)
		for other := -30; other <= 30; other++ {
			g := a * single(math.Pow(10, float64(other)))
			square := g * g
			must.True(t, (square == 0 || square >= leastNormal) && !math.IsInf(float64(square), 0), "the square of a gradient is %v", square)
		}
	}
}
