package levels

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
	"blankout/online/encode"
	"blankout/online/experts"
	"blankout/online/optimizers"
	"blankout/online/rows"
)

var rule, _ = optimizers.Find("adagrad")

// slow is one noise level, computed directly from the formulas. It has weights by column, and visits all of them at
// every event. Its intercept is column 0.
type slow struct {
	loss                   loss.Loss
	strength, rate, start  float64
	ridge                  float64
	share                  float64 // fraction of the stream that is averaged
	w, sum, average, count []float64
	taken                  float64
	proximal               bool
	paired                 bool // columns 5 and 7 are a pair, and 6 and 8
}

// with returns the part of the score that a column and its paired column add.
func (s *slow) with(w, x []float64, d int) float64 {
	sum := x[d] * w[d]
	if other := map[int]int{5: 7, 6: 8, 7: 5, 8: 6}[d]; s.paired && other > 0 && x[5+(d+1)%2] != 0 {
		sum += x[other] * w[other]
	}
	return sum
}

func (s *slow) scores(x []float64) (f, variance, average, averageVariance float64) {
	for d, v := range x {
		f += v * s.w[d]
		average += v * s.average[d]
		if d > 0 {
			variance += s.strength * v * s.w[d] * s.with(s.w, x, d)
			averageVariance += s.strength * v * s.average[d] * s.with(s.average, x, d)
		}
	}
	return
}

func (s *slow) learn(x []float64, y, weight float64) {
	f, v, _, _ := s.scores(x)
	_, df, dv := s.loss.At(y, f, v)
	g, kappa := make([]float64, len(x)), 0.0
	for d, z := range x {
		if z == 0 {
			continue
		}
		g[d] = weight * df * z
		if d > 0 {
			g[d] += weight*2*dv*s.strength*z*s.with(s.w, x, d) + s.ridge/s.count[d]*s.w[d]
		}
		kappa += s.rate * z * z / (math.Sqrt(s.start+s.sum[d]+g[d]*g[d]) + 1e-8)
	}
	a := 1.0
	if s.proximal {
		// a solves the equation that a df equals the derivative at f - a df kappa. It is found by bisection.
		low, high := 0.0, 1.0
		for range 60 {
			a = (low + high) / 2
			if _, d, _ := s.loss.At(y, f-a*weight*df*kappa, v); weight*d/(weight*df) < a {
				high = a
			} else {
				low = a
			}
		}
	}
	s.taken++
	p := 1/s.share - 1
	beta := (1 + p) / (s.taken + 1 + p)
	for d := range x {
		s.sum[d] += g[d] * g[d]
		s.w[d] -= a * s.rate * g[d] / (math.Sqrt(s.start+s.sum[d]) + 1e-8)
		s.average[d] += beta * (s.w[d] - s.average[d])
	}
}

// TestAgainstSlow checks that each level of the Expert learns like slow, for several losses, noises and kinds of
// settings. The tolerance is needed because the Expert computes the fraction a of a proximal step to within 1 % only.
func TestAgainstSlow(t *testing.T) {
	for _, l := range []loss.Loss{loss.LogisticGaussian{}, loss.LogisticChen{}, loss.HingeGaussian{Ell: 1}, loss.Probit{}, loss.LogisticQuadratic{}, loss.Quadratic{}} {
		for _, levels := range [][]loss.Noise{{loss.NoNoise{}}, {loss.Dropout{Q: 0.5}}, {loss.Dropout{Q: 0}, loss.Dropout{Q: 0.3}, loss.Dropout{Q: 0.7}}, {loss.NoNoise{}, loss.Dropout{Q: 0.2}, loss.Dropout{Q: 0.3}, loss.Dropout{Q: 0.4}, loss.Dropout{Q: 0.5}}} {
			for _, ridge := range []float64{0, 4} {
				for _, adapts := range []bool{false, true} {
					t.Run(fmt.Sprint(l, levels, ridge, adapts), func(t *testing.T) {
						c := Settings{Optimizer: rule, Loss: l, Noises: levels, Outputs: 1, Rate: 0.3, Start: 1, Ridge: ridge, Average: 0.15, Adapts: adapts, Intercept: true}
						against(t, c, false)
						against(t, c, true)
					})
				}
			}
		}
	}
}

// newExpert returns an Expert with its rows.
func newExpert(c Settings) (*Expert, *encode.Rows) {
	of := &encode.Rows{Table: model.NewTable(c.Width(c.Outputs)), Intercepts: make([]float64, c.Width(c.Outputs))}
	return New(c, of), of
}

// single returns an Expert with its rows, an event of one feature in column 4, and memory for its sums.
func single(c Settings) (e *Expert, of *encode.Rows, seen *experts.Input, sums []float64) {
	e, of = newExpert(c)
	in := &encode.Input{Columns: []uint32{4}, X: []float64{0.5, 1}, Event: &event.Example{}}
	in.Rows = append(of.Table.TouchAll(in.Columns, nil), of.Intercepts)
	return e, of, input(in), make([]float64, e.Sums())
}

// input returns an encoded event as the Expert reads it.
func input(in *encode.Input) *experts.Input {
	return &experts.Input{Event: in, Rows: in.Rows, Values: in.X}
}

func against(t *testing.T, c Settings, paired bool) {
	const columns = 9
	n := len(c.Noises)
	e, of := newExpert(c)
	var all []*slow
	for _, noise := range c.Noises {
		_, _, strength := noise.Coefficients()
		s := &slow{loss: c.Loss, strength: strength, rate: c.Rate, start: c.Start, ridge: c.Ridge, share: c.Average, proximal: c.Adapts, paired: paired}
		for _, p := range []*[]float64{&s.w, &s.sum, &s.average, &s.count} {
			*p = make([]float64, columns)
		}
		all = append(all, s)
	}
	r, sums := rand.New(rand.NewPCG(1, 2)), make([]float64, e.Sums())
	near := 1e-9
	if c.Adapts {
		if near = 0.02; paired { // for a pair the error of 1 % occurs twice
			near = 0.04
		}
	}
	for number := range uint64(80) {
		in, x := &encode.Input{Number: number + 1}, make([]float64, columns)
		x[0] = 1
		for d := 1; d < columns; d++ {
			there := r.IntN(3) > 0
			if paired && d > 6 {
				there = x[d-2] != 0
			}
			if there {
				if x[d] = r.NormFloat64(); paired && d > 6 {
					in.Pairs = append(in.Pairs, [2]int32{int32(slices.Index(in.Columns, uint32(d-2))), int32(len(in.Columns))})
				}
				in.Columns, in.X = append(in.Columns, uint32(d)), append(in.X, x[d])
			}
		}
		in.Rows = append(of.Table.TouchAll(in.Columns, nil), of.Intercepts)
		in.X = append(in.X, 1)
		for _, row := range in.Rows[:in.Features()] {
			row[model.StatCount]++
		}
		y, weight := float64(2*r.IntN(2)-1), 0.2+0.8*r.Float64()
		seen := input(in)
		e.Sum(seen, sums)
		e.variances(seen, in.Rows, sums)
		for v, s := range all {
			f, variance, average, averageVariance := s.scores(x)
			variances, averages, lv := e.step.Variance, e.averageVariances(seen), &e.levels[v]
			for what, d := range map[string]float64{"score": sums[v] - f, "variance": variances[v] - variance, "average's variance": averages[v] - averageVariance, "average": sums[v] + lv.Coefficient*sums[n+v] - average} {
				must.Require(t, math.Abs(d) <= near*max(1, math.Abs(f), variance), "event %d, level %d: the %s is off by %v; f %v", number, v, what, d, f)
			}
		}
		if c.Adapts && number == 20 {
			return // from here on Expert adapts its learning rate
		}
		e.Learn(seen, nil, sums, []float64{y}, 1, weight)
		for _, s := range all {
			for d := range x {
				if x[d] != 0 {
					s.count[d]++
				}
			}
			s.learn(x, y, weight)
		}
	}
}

// TestSumAgain compares the results of SumAgain with those of Sum, for few moved features and for many.
func TestSumAgain(t *testing.T) {
	for _, outputs := range []int{1, 7} {
		for _, moved := range [][]int{{7}, {0, 3, 5, 20}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}} {
			e, of := newExpert(Settings{Optimizer: rule, Loss: loss.LogisticGaussian{}, Noises: []loss.Noise{loss.NoNoise{}, loss.Dropout{Q: 0.5}}, Outputs: outputs, Rate: 0.1, Start: 1, Intercept: true})
			r := rand.New(rand.NewPCG(1, uint64(outputs)))
			random := func(n int) []float64 { return must.List(n, func(int) float64 { return r.NormFloat64() }) }
			in := &encode.Input{X: append(random(40), 1), Pairs: [][2]int32{{0, 30}, {3, 31}, {4, 32}}, Rescales: true}
			for range in.X {
				in.Rows = append(in.Rows, random(of.Table.Width()))
			}
			for _, at := range moved {
				in.Moves = append(in.Moves, encode.Move{At: at})
			}
			got, want := input(in), input(in)
			sums, wantSums := make([]float64, e.Sums()), make([]float64, e.Sums())
			e.Sum(got, sums)
			e.SumAgain(got, sums, func() {
				for _, at := range append(moved, in.Features()) {
					copy(in.Rows[at], random(of.Table.Width()))
				}
				for _, at := range moved {
					in.X[at] = r.NormFloat64()
				}
			})
			e.Sum(want, wantSums)
			must.Near(t, sums, wantSums, 1e-11, outputs, "outputs, moved", moved, "sums")
			must.Near(t, got.Pairs, want.Pairs, 1e-11, outputs, "outputs, moved", moved, "pairs")
			must.Near(t, got.Basis, want.Basis, 0, outputs, "outputs, moved", moved, "basis")
		}
	}
}

// TestMove checks that a row adds the same to the score after it is converted to its column's new scale.
func TestMove(t *testing.T) {
	c := Settings{Optimizer: rule, Loss: loss.LogisticGaussian{}, Noises: []loss.Noise{loss.NoNoise{}, loss.Dropout{Q: 0.3}, loss.Dropout{Q: 0.7}}, Outputs: 1, Rate: 0.3, Start: 1, Average: 0.15, Adapts: true, Intercept: true}
	e, of := newExpert(c)
	in := &encode.Input{Columns: []uint32{4, 7}, X: []float64{0.5, -0.25, 1}, Event: &event.Example{}}
	in.Rows = append(of.Table.TouchAll(in.Columns, nil), of.Intercepts)
	sums, seen := make([]float64, e.Sums()), input(in)
	iterates := func() []float64 {
		e.Sum(seen, sums)
		return slices.Clone(sums[:3])
	}
	for range 30 {
		iterates()
		e.Learn(seen, nil, sums, []float64{1}, 1, 1)
	}
	want, sum := iterates(), in.Rows[0][rows.FirstPart+3]
	e.Move(&encode.Move{Row: in.Rows[0], Ratio: 2, Shift: 0.1, Keep: 0.5})
	in.X[0] = (0.5 - 0.1) / 2
	moved := iterates()
	must.Near(t, moved, want, 1e-13, "levels")
	got := in.Rows[0][rows.FirstPart+3]
	must.True(t, math.Abs(got-sum*0.5/4) <= 1e-15, "sum of squares %v, was %v", got, sum)
	// A change that would extrapolate too far must not be made.
	e.Move(&encode.Move{Row: in.Rows[0], Ratio: 1, Shift: 1e6, Keep: 1})
	must.Near(t, iterates(), moved, 0, "scores after a move too far")
}

// TestEarlier checks that averages and iterates are compared by the scores that they had when the event arrived.
func TestEarlier(t *testing.T) {
	for _, earlier := range [][]float64{{-9, 9}, {9, -9}} {
		e, _, seen, sums := single(Settings{Optimizer: rule, Loss: loss.LogisticGaussian{}, Noises: []loss.Noise{loss.NoNoise{}}, Outputs: 1, Rate: 0.3, Start: 1, Average: 0.15, Adapts: true, Intercept: true})
		seen.Earlier = earlier
		for range 500 {
			e.Sum(seen, sums)
			e.Learn(seen, nil, sums, []float64{1}, 1, 1)
		}
		must.Equal(t, e.levels[0].LagWeight() > 0, earlier[1] > 0, "the average is published, earlier scores", earlier)
	}
}

// TestRescale checks that another unit of the targets multiplies weights, shifts intercepts, and keeps a part of the
// accumulators.
func TestRescale(t *testing.T) {
	e, of, seen, sums := single(Settings{Optimizer: rule, Loss: loss.Quadratic{}, Noises: []loss.Noise{loss.NoNoise{}, loss.Dropout{Q: 0.5}}, Outputs: 1, Rate: 0.3, Start: 1, Average: 0.15, Intercept: true})
	e.Sum(seen, sums)
	e.Learn(seen, nil, sums, []float64{3}, 1, 1)
	const factor, shift, keep = 2, 0.5, 0.25
	row, was := seen.Rows[0], [2][]float64{slices.Clone(seen.Rows[0]), slices.Clone(of.Intercepts)}
	e.Rescale(factor, shift, keep)
	for v := range 2 {
		must.Near(t, []float64{e.layout.Weights(row)[v], e.layout.Weights(of.Intercepts)[v]}, []float64{factor * e.layout.Weights(was[0])[v], factor*e.layout.Weights(was[1])[v] + shift}, 1e-12, "weights")
		must.Near(t, e.layout.Accumulators(row)[v:v+1], []float64{keep * e.layout.Accumulators(was[0])[v]}, 1e-12, "accumulators")
	}
}

// TestRegroup checks that the output of two classes becomes two outputs with opposite weights and lags, and with the same
// accumulators.
func TestRegroup(t *testing.T) {
	e, of, seen, sums := single(Settings{Optimizer: rule, Loss: loss.LogisticGaussian{}, Noises: []loss.Noise{loss.NoNoise{}, loss.Dropout{Q: 0.5}}, Outputs: 1, Rate: 0.3, Start: 1, Average: 0.15, Adapts: true, Intercept: true})
	e.Sum(seen, sums)
	e.Learn(seen, nil, sums, []float64{1}, 1, 1)
	was, row := e.layout, seen.Rows[0]
	e.Regroup([][]int{{^0}, {0}})
	for part := range 3 {
		old, now := was.Part(row, part), e.layout.Part(of.Table.Row(4), part)
		sign := []float64{-1, 1, -1}[part]
		must.Near(t, now, []float64{sign * old[0], old[0], sign * old[1], old[1]}, 0, "part", part)
		must.True(t, old[0] != 0 && old[1] != 0, "part %d is %v", part, old)
	}
}

// TestConfidentEventsAreSampled checks that a few of the confident events after the first ones make a step, that these count
// for the others, and that without adaptation and after the first pass all do.
func TestConfidentEventsAreSampled(t *testing.T) {
	const events = 1 << 13
	for name, c := range map[string]struct {
		loss                    loss.Loss
		adapts, passed, samples bool
	}{
		"first pass":     {loss.LogisticGaussian{}, true, false, true},
		"not adapting":   {loss.LogisticGaussian{}, false, false, false},
		"second pass":    {loss.LogisticGaussian{}, true, true, false},
		"quadratic loss": {loss.Quadratic{}, true, false, false}, // its gradients grow with the margin
	} {
		e, _, seen, sums := single(Settings{Optimizer: rule, Loss: c.loss, Noises: []loss.Noise{loss.NoNoise{}, loss.Dropout{Q: 0.3}}, Outputs: 1, Rate: 0.3, Start: 1, Average: 0.15, Adapts: c.adapts, Intercept: true})
		steps, sum := 0, 0.0
		for i := range events + 4096 {
			e.Sum(seen, sums)
			sums[0], sums[1] = 5, 5
			if i == 4096 && c.passed {
				e.EndPass()
			}
			e.step.Importance = 0
			if e.Learn(seen, nil, sums, []float64{1}, 1, 0.5); i >= 4096 && e.step.Importance > 0 {
				steps, sum = steps+1, sum+e.step.Importance
			}
			must.True(t, i >= 4095 || e.step.Importance == 0.5, "%s: event %d counts %v", name, i, e.step.Importance)
		}
		must.True(t, math.Abs(sum/events-0.5) < 0.01, "%s: an event counts %v", name, sum/events)
		must.True(t, c.samples && steps < events*3/10 || !c.samples && steps == events, "%s: %d steps for %d events", name, steps, events)
	}
}
