package newton

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"blankout/internal/coder"
	"blankout/internal/eventtest"
	"blankout/internal/loss"
	"blankout/internal/must"
	"blankout/online/encode"
	"blankout/online/experts"
)

// stream generates events of a few columns, some of which are often absent. The base score contains a part of the true
// score.
type stream struct {
	r       *rand.Rand
	columns []uint32
	w       []float64
	target  loss.Target

	at      []uint32
	x, base []float64
	y       []float64
}

func newStream(seed uint64, l loss.Loss, outputs int) *stream {
	return newStreamOf([]uint32{3, 8, 9, 20, 31}, seed, l, outputs)
}

func newStreamOf(columns []uint32, seed uint64, l loss.Loss, outputs int) *stream {
	s := &stream{r: rand.New(rand.NewPCG(seed, 1)), columns: columns, target: l.Facts().Target}
	s.base, s.y = make([]float64, outputs), make([]float64, outputs)
	for range outputs * len(s.columns) {
		s.w = append(s.w, s.r.NormFloat64())
	}
	return s
}

func (s *stream) next() {
	s.at, s.x = s.at[:0], s.x[:0]
	for i, column := range s.columns {
		if i > 2 && s.r.IntN(2) == 0 {
			continue
		}
		s.at, s.x = append(s.at, column), append(s.x, 0.5+s.r.NormFloat64())
	}
	for k := range s.y {
		f := 0.3
		for i, column := range s.at {
			f += s.w[k*len(s.columns)+slices.Index(s.columns, column)] * s.x[i]
		}
		s.base[k] = 0.2*f + 0.4*s.r.NormFloat64()
		switch s.target {
		case loss.Sign:
			s.y[k] = -1
			if s.r.Float64() < 1/(1+math.Exp(-f)) {
				s.y[k] = 1
			}
		case loss.Count:
			s.y[k] = math.Round(math.Exp(min(f/2, 3)))
		default:
			s.y[k] = f + 0.3*s.r.NormFloat64()
		}
	}
}

// wanted returns the losses that an Expert supports.
func wanted() (all []loss.Loss) {
	for _, l := range eventtest.Losses() {
		if Wanted(l) {
			all = append(all, l)
		}
	}
	return all
}

// of returns an Expert for a loss with the given number of outputs, and a stream of events for the Expert.
func of(l loss.Loss, outputs int) (*tested, *stream) {
	s := newStream(7, l, outputs)
	e := newTested(Settings{Loss: l, Ridge: 2, HalfLife: 500, Strength: 0.25}, outputs)
	e.follow(s.columns)
	return e, s
}

// clone returns a copy by encoding and decoding the state.
func (e *tested) clone(t *testing.T) *tested {
	t.Helper()
	w := &coder.Coder{}
	e.State(w)
	out := newTested(e.set, e.outputs)
	d := coder.Read(w.Out)
	out.State(d)
	must.Require(t, d.Done(), "a state is not read")
	return out
}

// slow is a slow implementation of the formulas in the package documentation. It uses full matrices, which gonum
// inverts at every event.
type slow struct {
	set     Settings
	columns []uint32
	first   int
	a       *mat.SymDense
	u       []*mat.VecDense
	noise   []float64
	met     int
}

func newSlow(set Settings, columns []uint32, outputs int) *slow {
	s := &slow{set: set, columns: columns, first: 1}
	if outputs == 1 {
		s.first = 2
	}
	n := s.first + len(columns)
	s.a, s.noise = mat.NewSymDense(n, nil), make([]float64, n)
	for i := range n {
		s.a.SetSym(i, i, set.Ridge)
	}
	for range outputs {
		s.u = append(s.u, mat.NewVecDense(n, nil))
	}
	return s
}

// solve adds A^-1 times pulls[k] to the weights of output k.
func (s *slow) solve(t *testing.T, pulls []*mat.VecDense) {
	var c mat.Cholesky
	must.Require(t, c.Factorize(s.a), "the matrix is indefinite")
	for k, pull := range pulls {
		var step mat.VecDense
		must.Do(t, c.SolveVecTo(&step, pull))
		s.u[k].AddVec(s.u[k], &step)
	}
}

func (s *slow) learn(t *testing.T, at []uint32, x, base, y []float64, importance float64) (scores []float64) {
	n := s.first + len(s.columns)
	z := mat.NewVecDense(n, nil)
	z.SetVec(0, 1)
	if s.first == 2 {
		z.SetVec(1, base[0])
	}
	for i, column := range at {
		z.SetVec(s.first+slices.Index(s.columns, column), x[i])
	}
	for k := range s.u {
		scores = append(scores, base[k]+mat.Dot(s.u[k], z))
	}
	every := must.Either(s.met >= 2000, max(1, min(n/64, 4)), 1)
	if s.met++; s.met%every > 0 {
		return scores
	}
	var p mat.Dense
	must.Do(t, p.Inverse(s.a))
	h := mat.Inner(z, &p, z)
	r, dvMost := 0.0, 0.0
	var pulls, shrink []*mat.VecDense
	for k, f := range scores {
		v := 0.0
		for i := s.first; i < n; i++ {
			v += s.set.Strength * math.Pow(s.u[k].AtVec(i)*z.AtVec(i), 2)
		}
		_, df, dv := s.set.Loss.At(y[k], f, v)
		slope := func(to float64) float64 {
			if to == f {
				return 0
			}
			_, then, _ := s.set.Loss.At(y[k], to, v)
			return min((then-df)/(to-f), 1e6)
		}
		c := min(2*dv, 1e6)
		if math.IsNaN(c) {
			c, dv = 0, 0
		}
		if s.set.Loss.Facts().Target == loss.Sign && y[k]*f < 0 {
			c = max(c, slope(-f))
		}
		if residual := y[k] - f; s.set.Loss.Facts().Target == loss.Real && residual != 0 {
			c = max(c, min(-df/residual, 1e6))
		}
		if d := -df * h; s.set.Loss.Facts().Kink != nil || math.Abs(d) > 0.5 {
			c = max(c, slope(f+d))
		}
		r, dvMost = max(r, c), max(dv, dvMost)
		pull := mat.NewVecDense(n, nil)
		pull.AddScaledVec(pull, -importance*df, z)
		pulls = append(pulls, pull)
	}
	phi := must.Either(s.set.HalfLife > 0, min(float64(n)*(1-math.Exp2(-float64(every)/s.set.HalfLife))*min(1, 4*r), 0.5), 0.0)
	s.a.SymRankOne(s.a, importance*r-phi/h, z)
	s.solve(t, pulls)
	if s.set.Strength == 0 {
		return scores
	}
	for i := s.first; i < n; i++ {
		s.noise[i] += 2 * importance * dvMost * s.set.Strength * z.AtVec(i) * z.AtVec(i)
	}
	i := s.first + s.met/every%len(s.columns)
	s.a.SetSym(i, i, s.a.At(i, i)+s.noise[i])
	for _, u := range s.u {
		pull := mat.NewVecDense(n, nil)
		pull.SetVec(i, -s.noise[i]*u.AtVec(i))
		shrink = append(shrink, pull)
	}
	s.noise[i] = 0
	s.solve(t, shrink)
	return scores
}

// TestAgainstSlowVersion checks that an Expert learns like slow, with every supported loss, with one and with several
// outputs. In the last case the half-life is short, and there are so many columns that the Expert skips events.
func TestAgainstSlowVersion(t *testing.T) {
	for _, l := range wanted() {
		for _, outputs := range []int{1, 3} {
			if outputs > 1 && l.Facts().Target != loss.Sign {
				continue
			}
			for _, set := range []Settings{{l, 2, 500, 0.25, 0}, {l, 0.5, 0, 0, 0}} {
				compare(t, set, newStream(7, l, outputs), 500)
			}
		}
	}
	many := must.List(64, func(i int) uint32 { return 2 * uint32(i) })
	l := loss.LogisticGaussian{}
	compare(t, Settings{l, 2, 60, 0.1, 0}, newStreamOf(many, 7, l, 1), learnAll+100)
}

// compare compares the scores and places of an Expert with the results of slow.
func compare(t *testing.T, set Settings, s *stream, events int) {
	outputs := len(s.y)
	e, want := newTested(set, outputs), newSlow(set, s.columns, outputs)
	e.follow(s.columns)
	got := make([]float64, outputs)
	for n := range events {
		s.next()
		e.Score(s.at, s.x, s.base, got)
		importance := 0.5 + s.r.Float64()
		scores := want.learn(t, s.at, s.x, s.base, s.y, importance)
		must.Near(t, got, scores, 1e-7, set.Loss, outputs, "outputs, event", n)
		e.Learn(s.y, outputs, importance)
	}
}

// TestRidgeRegression checks the squared loss without forgetting. The weights must equal the ridge regression of the
// residuals (target minus base score).
func TestRidgeRegression(t *testing.T) {
	l := must.Get(loss.Parse("squared"))(t)
	s := newStream(1, l, 1)
	e := newTested(Settings{Loss: l, Ridge: 3}, 1)
	e.follow(s.columns)
	n := 2 + len(s.columns)
	a, b := mat.NewSymDense(n, nil), mat.NewVecDense(n, nil)
	for i := range n {
		a.SetSym(i, i, 3)
	}
	out := make([]float64, 1)
	for range 1500 {
		s.next()
		e.Score(s.at, s.x, s.base, out)
		z := mat.NewVecDense(n, nil)
		z.SetVec(0, 1)
		z.SetVec(1, s.base[0])
		for i, column := range s.at {
			z.SetVec(2+slices.Index(s.columns, column), s.x[i])
		}
		_, df, dv := l.At(s.y[0], s.base[0], 0)
		a.SymRankOne(a, 2*dv, z)
		b.AddScaledVec(b, -df, z)
		e.Learn(s.y, 1, 1)
	}
	var want mat.VecDense
	must.Do(t, want.SolveVec(a, b))
	for i, u := range e.u[0] {
		must.True(t, math.Abs(u-want.AtVec(i)) <= 1e-9, "weight %d is %v, want %v", i, u, want.AtVec(i))
	}
}

// TestFollow adds and removes columns. The remaining columns must keep their weights and covariances, and the scores of
// events with only these columns must not change.
func TestFollow(t *testing.T) {
	e, s := of(loss.LogisticGaussian{}, 1)
	out := make([]float64, 1)
	for range 800 {
		s.next()
		e.Score(s.at, s.x, s.base, out)
		e.Learn(s.y, 1, 1)
	}
	score := func() float64 {
		e.Score([]uint32{3, 9, 20}, []float64{1, -1, 2}, []float64{0.5}, out)
		return out[0]
	}
	p := func(a, b uint32) float64 { return e.p.at(e.place(a), e.place(b)) }
	// want is the covariance of the weights of columns 3 and 20 under the condition w_8 = 0.
	want := p(3, 20) - p(3, 8)*p(8, 20)/p(8, 8)
	u := func(column uint32) float64 { return e.u[0][e.place(column)] }
	weight := u(3)
	e.follow([]uint32{2, 3, 9, 15, 20, 31, 99}) // removes column 8
	must.True(t, math.Abs(p(3, 20)-want) <= 1e-9 && u(3) == weight, "a covariance is %v, want %v; a weight %v, want %v", p(3, 20), want, u(3), weight)
	must.True(t, slices.Equal(e.columns, []uint32{2, 3, 9, 15, 20, 31, 99}), "columns %v", e.columns)
	was := score()
	e.follow([]uint32{2, 3, 9, 15, 20, 31, 50, 99})
	must.Equal(t, score(), was, "the score")
	for _, column := range []uint32{2, 15, 50, 99} {
		must.True(t, p(column, column) == 0.5 && u(column) == 0 && p(column, 3) == 0, "column %d does not begin at the ridge", column)
	}
	e.Move(&encode.Move{Column: 20, Renews: true})
	must.True(t, p(20, 20) == 0.5 && p(20, 3) == 0 && u(20) == 0, "a column is not renewed")
	before := p(3, 3)
	e.Forget(0.1)
	must.True(t, p(20, 20) == 0.5 && p(3, 3) > 2*before && p(3, 3) < 10.1*before, "variances %v, and %v of %v", p(20, 20), p(3, 3), before)
	last := len(e.p.data) - 1
	e.p.data[last] = 3 // larger than the ridge allows, as if the column's scale had increased
	e.Forget(0.1)
	must.True(t, e.p.data[last] == 3, "a variance of 3 is %v", e.p.data[last])
	columns := slices.Clone(e.columns)
	e.Restart()
	must.True(t, slices.Equal(e.columns, columns) && e.met == 1 && u(3) == 0 && p(3, 3) == 0.5 && p(3, 31) == 0, "it does not begin anew")
}

// TestCovariance checks that a covariance is the inverse of the sum of its updates. The updates have both signs. The
// sizes of the matrices include the boundary cases of the loops.
func TestCovariance(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for n := 1; n < 20; n++ {
		a, p := mat.NewSymDense(n, nil), covariance{}
		for i := range n {
			p = p.with(i, 1/(1+float64(i)))
			a.SetSym(i, i, 1+float64(i))
		}
		gain := make([]float64, n)
		for range 3 * n {
			z := make([]float64, n)
			first := r.IntN(n)
			for i := first; i < n; i++ {
				z[i] = r.NormFloat64()
			}
			var inverse mat.Dense
			must.Do(t, inverse.Inverse(a))
			v := mat.NewVecDense(n, z)
			want := mat.Inner(v, &inverse, v)
			h := p.leverage(z, first)
			must.Require(t, math.Abs(h-want) <= 1e-9*want, "%d: the leverage is %v, want %v", n, h, want)
			add := r.ExpFloat64()
			if r.IntN(3) == 0 {
				add = -0.5 / h
			}
			a.SymRankOne(a, add, v)
			alpha := p.update(add, gain)
			must.True(t, math.Abs(alpha-1-add*h) <= 1e-9, "%d: alpha is %v, want %v", n, alpha, 1+add*h)
			var pz mat.VecDense
			pz.MulVec(&inverse, v)
			for i, g := range gain {
				must.True(t, math.Abs(g-pz.AtVec(i)) <= 1e-9*(1+math.Abs(g)), "%d: gain %d is %v, want %v", n, i, g, pz.AtVec(i))
			}
		}
		var inverse mat.Dense
		must.Do(t, inverse.Inverse(a))
		for i := range n {
			for j := range n {
				got, want := p.at(i, j), inverse.At(i, j)
				must.Require(t, math.Abs(got-want) <= 1e-9*(1+math.Abs(want)), "%d: at %d, %d is %v, want %v", n, i, j, got, want)
			}
		}
	}
}

// TestCovarianceLoops checks that the fast loops return the same bits as the slow loops, and write nothing beyond the matrix.
func TestCovarianceLoops(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for n := 1; n < 40; n++ {
		first, z := r.IntN(n), make([]float64, n)
		for i := first; i < n; i++ {
			z[i] = r.NormFloat64()
		}
		fast, slow := covariance{n: n, f: make([]float64, n)}, covariance{n: n, f: make([]float64, n)}
		for range n*(n+1)/2 + 4 {
			fast.data = append(fast.data, math.Exp(r.NormFloat64()))
		}
		slow.data = slices.Clone(fast.data)
		gain, want := make([]float64, n), make([]float64, n)
		h, alpha := fast.leverage(z, first), 0.0
		by := slow.leverageGo(z, first)
		must.True(t, h == by && slices.Equal(fast.f, slow.f), "%d variables from %d: leverage %v, want %v", n, first, h, by)
		alpha = fast.update(0.3/h, gain)
		by = slow.updateGo(0.3/h, want)
		must.True(t, alpha == by && slices.Equal(gain, want) && slices.Equal(fast.data, slow.data), "%d variables: alpha %v, want %v; gain %v, want %v", n, alpha, by, gain, want)
	}
}

// TestCovarianceLasts checks that the covariance is still positive after very many events in which some columns are
// sums of other columns.
func TestCovarianceLasts(t *testing.T) {
	e := newTested(Settings{Loss: loss.LogisticGaussian{}, Ridge: 1e-3, HalfLife: 500}, 1)
	at := []uint32{1, 2, 3, 4, 5, 6}
	e.follow(at)
	r := rand.New(rand.NewPCG(5, 6))
	out := make([]float64, 1)
	for n := range 200_000 {
		a, b := r.NormFloat64(), r.Float64()
		x := []float64{a, 1000 * a, b, 1 - b, a + b, 1}
		y := must.Either(r.Float64() > 1/(1+math.Exp(-a)), -1.0, 1)
		e.Score(at, x, []float64{a / 2}, out)
		e.Learn([]float64{y}, 1, 1)
		must.Require(t, e.met == uint64(n+1), "event %d: it has begun anew", n)
	}
	lost := 0.0
	for range 2000 {
		a, b := r.NormFloat64(), r.Float64()
		e.Score(at, []float64{a, 1000 * a, b, 1 - b, a + b, 1}, []float64{a / 2}, out)
		lost += math.Abs(out[0]-a) / 2000
	}
	must.True(t, lost <= 0.25, "scores are off by %v", lost)
}

// TestNoFartherThanTheTarget checks that, with every loss for real targets, learning an event moves its score towards
// the target but not past the target.
func TestNoFartherThanTheTarget(t *testing.T) {
	for _, name := range []string{"squared", "absolute", "quantile:0.9", "quantile:0.1", "huber:1"} {
		l := must.Get(loss.Parse(name))(t)
		e := newTested(Settings{Loss: l, Ridge: 0.01, HalfLife: 500}, 1)
		columns := []uint32{1, 2, 3, 4, 5}
		e.follow(columns)
		r := rand.New(rand.NewPCG(1, 7))
		x, scores, base := make([]float64, len(columns)), make([]float64, 1), make([]float64, 1)
		for n := range 3000 {
			y := 0.0
			for i := range x {
				x[i] = r.NormFloat64()
				y += x[i]
			}
			base[0] = 0.5 * y
			y += math.Exp(3*r.NormFloat64()) * r.NormFloat64()
			e.Score(columns, x, base, scores)
			before := y - scores[0]
			if !e.Learn([]float64{y}, 1, 1) {
				continue
			}
			e.Score(columns, x, base, scores)
			after := y - scores[0]
			must.Require(t, after*before >= -1e-9*before*before && math.Abs(after) <= math.Abs(before), "%s: event %d was off by %v, and is by %v", name, n, before, after)
		}
	}
}

// TestPull checks that Pull has the same effect as an event with the given columns, the target score 0, and a loss of
// curvature pulled.
func TestPull(t *testing.T) {
	l := must.Get(loss.Parse("logistic"))(t)
	const ridge = 2
	for _, outputs := range []int{1, 3} {
		e := newTested(Settings{Loss: l, Ridge: ridge}, outputs)
		e.follow([]uint32{3, 5, 6, 7, 9})
		weights := []float64{4, 1, -2, 0.5, 7}
		copy(e.u[outputs-1][e.first:], weights)
		fractions := []float64{0.25, 0.5, 0.25}
		e.Pull(5, fractions)
		score, size := 0.0, 0.0
		for i, fraction := range fractions {
			score, size = score+fraction*weights[1+i], size+fraction*fraction
		}
		want := slices.Clone(weights)
		for i, fraction := range fractions {
			want[1+i] -= fraction * pulled * score / (ridge + pulled*size)
		}
		for i, w := range e.Weights(outputs - 1).Columns {
			if math.Abs(w-want[i]) > 1e-12 {
				t.Errorf("%d outputs: weights %v, want %v", outputs, e.Weights(outputs-1).Columns, want)
				break
			}
		}
		must.True(t, e.Weights(outputs-1).Intercept == 0, "%d outputs: the intercept has moved to %v", outputs, e.Weights(outputs-1).Intercept)
	}
}

// at returns P_ij.
func (p *covariance) at(i, j int) (x float64) {
	for k := max(i, j); k < p.n; k++ {
		c := p.column(k)
		a, b := 1.0, 1.0
		if i < k {
			a = c[i]
		}
		if j < k {
			b = c[j]
		}
		x += a * b * c[k]
	}
	return x
}

// TestRestartsWhereNothingIsKnown checks an expert whose covariance is not positive. It must restart without learning
// the event, and must learn the next event.
func TestRestartsWhereNothingIsKnown(t *testing.T) {
	for name, spoil := range map[string]float64{"zero": 0, "no number": math.NaN(), "negative": -1, "endless": math.Inf(1), "too large": 1e306} {
		e := newTested(Settings{Loss: loss.LogisticGaussian{}, Ridge: 1, HalfLife: 2000}, 1)
		e.follow([]uint32{3, 5})
		size := 1.0
		learn := func() bool {
			scores := make([]float64, 1)
			e.Score([]uint32{3, 5}, []float64{size, -2 * size}, []float64{0.1}, scores)
			return e.Learn([]float64{1}, 1, 1)
		}
		for range 20 {
			learn()
		}
		for j := range e.p.n {
			for i := range e.p.column(j) {
				e.p.column(j)[i] *= 0
			}
			e.p.column(j)[j] = spoil
		}
		if spoil == 1e306 { // the leverage overflows, but the gain does not
			size = 50
		}
		must.True(t, learn() && e.met == 0, "%s: it has not begun again", name)
		for k := range e.u {
			for _, u := range e.u[k] {
				// coefficient of the base
				must.True(t, u == 0 || u == 1, "%s: it has kept the weight %v", name, u)
			}
		}
		learn()
		must.True(t, e.met == 1 && e.p.column(0)[0] > 0, "%s: it does not go on", name)
	}
}

// tested is an Expert with the event that it is to learn next.
type tested struct {
	*Expert
	in           experts.Input
	base, scores []float64
}

func newTested(s Settings, outputs int, columns ...uint32) *tested {
	e := &tested{Expert: New(s, outputs)}
	e.follow(slices.Sorted(slices.Values(columns)))
	return e
}

// Score writes the scores of an event to out. It ignores columns that the Expert does not have.
func (e *tested) Score(columns []uint32, x, base, out []float64) {
	e.in = experts.Input{One: 1}
	for i, column := range columns {
		if at, known := slices.BinarySearch(e.columns, column); known {
			e.in.Index, e.in.X = append(e.in.Index, at), append(e.in.X, x[i])
		}
	}
	e.Sum(&e.in, out)
	for k, b := range base {
		out[k] += b + e.Base(0)*b
	}
	e.base, e.scores = slices.Clone(base), slices.Clone(out)
}

// Learn learns the event that was scored last.
func (e *tested) Learn(y []float64, active int, importance float64) (moved bool) {
	return e.learn(&e.in, e.base, e.scores, y, active, importance)
}

// Die sets the groups of the event that was scored last.
func (e *tested) Die(g experts.Groups) {
	e.in.Groups = g
	e.take(&e.in, e.base, e.scores)
}

// weights are the coefficients of the score of one output.
type weights struct {
	Intercept, Base float64
	Columns         []float64
}

func (e *tested) Weights(k int) weights {
	return weights{e.u[k][0], 1 + e.Base(0), e.u[k][e.first:]}
}

// TestRescale checks the squared loss with targets in another unit. The predictions, also of later events, must be
// equal up to that unit.
func TestRescale(t *testing.T) {
	l := must.Get(loss.Parse("squared"))(t)
	s := newStream(5, l, 1)
	e := newTested(Settings{Loss: l, Ridge: 2, HalfLife: 400}, 1)
	e.follow(s.columns)
	other := e.clone(t)
	a, b := make([]float64, 1), make([]float64, 1)
	factor, shift := 1.0, 0.0
	for n := range 1500 {
		s.next()
		e.Score(s.at, s.x, s.base, a)
		other.Score(s.at, s.x, []float64{factor*s.base[0] + shift}, b)
		must.Require(t, math.Abs(factor*a[0]+shift-b[0]) <= 1e-8*(1+math.Abs(b[0])), "event %d: %v and %v", n, factor*a[0]+shift, b[0])
		e.Learn(s.y, 1, 1)
		other.Learn([]float64{factor*s.y[0] + shift}, 1, 1)
		if n%200 == 100 {
			f, m := 0.5+s.r.Float64(), s.r.NormFloat64()
			other.Rescale(f, m, 1)
			factor, shift = factor*f, shift*f+m
		}
	}
}

// TestGrow changes an Expert with one output for two classes to one output per class. The Expert must then learn a
// third class.
func TestGrow(t *testing.T) {
	e, s := of(loss.LogisticGaussian{}, 1)
	out := make([]float64, 3)
	for range 700 {
		s.next()
		e.Score(s.at, s.x, s.base, out)
		e.Learn(s.y, 1, 1)
	}
	x := []float64{1, -1, 2}
	w := e.Weights(0)
	own := w.Intercept + w.Columns[0] - w.Columns[2] + 2*w.Columns[3]
	own += w.Base * 0.5
	c := e.Regroup([][]int{{^0}, {0}, nil})
	must.True(t, c == w.Base && c != 1, "the scores are to be multiplied by %v, want %v", c, w.Base)
	e.Score([]uint32{3, 9, 20}, x, []float64{-0.5, 0.5, -30}, out)
	for k, want := range []float64{-own, own, -30 * c} {
		must.True(t, math.Abs(c*out[k]-want) <= 1e-12, "score %d is %v, want %v", k, out[k], want)
	}
	w = e.Weights(1)
	must.True(t, w.Base == 1 && len(w.Columns) == 5, "weights %+v", w)
	for range 300 {
		e.Learn([]float64{-1, -1, 1}, 3, 1)
		e.Score([]uint32{3, 9, 20}, x, []float64{-0.5, 0.5, 0}, out)
	}
	must.True(t, out[2] > 0.5 && out[1] < 0.5, "scores %v", out)
}

// TestMoveChangesNoScore checks that a change of a column's unit or center does not change the scores of the current
// event and of later events. Under dropout only the unit changes, because the noise depends on the center.
func TestMoveChangesNoScore(t *testing.T) {
	for _, outputs := range []int{1, 3} {
		for _, strength := range []float64{0, 0.25} {
			e, s := of(loss.LogisticGaussian{}, outputs)
			e.set.Strength = strength
			moved := e.clone(t)
			a, b := make([]float64, outputs), make([]float64, outputs)
			ratio, shift := 1.0, 0.0
			for n := range 900 {
				s.next()
				if n%37 == 36 {
					r, m := 0.8+0.3*s.r.Float64(), 0.02*s.r.NormFloat64()
					if strength > 0 {
						m = 0
					}
					moved.Move(&encode.Move{Column: 9, Ratio: r, Shift: m})
					ratio, shift = ratio*r, shift+m*ratio
					moved.Move(&encode.Move{Column: 10, Ratio: r, Shift: m}) // column 10 does not exist
				}
				x := slices.Clone(s.x)
				x[2] = (x[2] - shift) / ratio
				e.Score(s.at, s.x, s.base, a)
				moved.Score(s.at, x, s.base, b)
				must.Near(t, b, a, 1e-9, outputs, "outputs, event", n)
				e.Learn(s.y, outputs, 1)
				moved.Learn(s.y, outputs, 1)
			}
		}
	}
}

// TestOutlyingEvents checks that scores are finite after events with outliers, and that later events are still learned.
func TestOutlyingEvents(t *testing.T) {
	for _, l := range wanted() {
		e, s := of(l, 1)
		out := make([]float64, 1)
		if kink := l.Facts().Kink; kink != nil {
			s.next()
			s.base[0] = kink(s.y[0])
			e.Score(s.at, s.x, s.base, out)
			e.Learn(s.y, 1, 1)
			must.True(t, e.p.at(0, 0) > 1e-4, "%v: the kink itself leaves the variance %v", l, e.p.at(0, 0))
		}
		for n := range 3000 {
			s.next()
			if n%50 == 7 {
				s.x[s.r.IntN(len(s.x))] = math.Pow(10, 30*s.r.Float64())
				s.base[0] *= math.Pow(10, 5*s.r.Float64())
			}
			e.Score(s.at, s.x, s.base, out)
			e.Learn(s.y, 1, math.Pow(10, 4*s.r.NormFloat64()))
			for _, u := range e.u[0] {
				must.Require(t, u-u == 0 && math.Abs(u) <= mostWeight, "%v, event %d: weights %v", l, n, e.u[0])
			}
		}
		w := &coder.Coder{}
		e.State(w)
		must.True(t, !w.Failed, "%v: the state is no state of numbers", l)
	}
}

// TestInvalidStates checks that a truncated state and a state of another number of outputs are rejected.
func TestInvalidStates(t *testing.T) {
	for _, outputs := range []int{1, 3} {
		e, s := of(loss.LogisticGaussian{}, outputs)
		e.set.Groups = 0.5
		for range 100 {
			s.next()
			e.Score(s.at, s.x, s.base, make([]float64, outputs))
			e.Die(s.groups())
			e.Learn(s.y, outputs, 1)
		}
		w := &coder.Coder{}
		e.State(w)
		for cut := 0; cut < len(w.Out); cut += 13 {
			d := coder.Read(w.Out[:cut])
			New(e.set, outputs).State(d)
			must.Require(t, !d.Done(), "%d of %d bytes are taken", cut, len(w.Out))
		}
		d := coder.Read(w.Out)
		New(e.set, 2).State(d)
		must.True(t, !d.Done(), "a state of other outputs is taken")
	}
}
