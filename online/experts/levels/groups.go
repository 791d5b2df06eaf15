package levels

// This file implements noise that removes whole groups of features (rows.Groups), and noise whose variance is not
// proportional to the square of a feature's value. Groups that are pairs of a number and its presence column have a
// separate, faster implementation.

import (
	"slices"

	"blankout/internal/coder"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/online/encode"
	"blankout/online/experts"
	"blankout/online/rows"
)

// kind describes how the variance of a feature's noise depends on the feature's value.
type kind int

const (
	square   kind = iota // x^2: dropout
	linear               // x: Poisson
	constant             // 1: Gaussian, Laplace
)

func kindOf(n loss.Noise) kind {
	switch c0, c1, _ := n.Coefficients(); {
	case c0 > 0:
		return constant
	case c1 > 0:
		return linear
	}
	return square
}

// Constant reports whether any level has noise whose variance is independent of the values. Square reports whether the
// variance of every level's noise is proportional to the square of the values.
func (c *Settings) Constant() bool {
	return slices.ContainsFunc(c.Noises, func(n loss.Noise) bool { return kindOf(n) == constant })
}

func (c *Settings) Square() bool {
	return !slices.ContainsFunc(c.Noises, func(n loss.Noise) bool { return kindOf(n) != square })
}

// Grouped reports whether any level drops whole groups.
func (c *Settings) Grouped() bool { return slices.ContainsFunc(c.Noises, loss.IsGrouped) }

// basis returns the factor of each feature's noise variance that depends on the feature's value. The factor is 0 for
// the intercepts. Constant noise also acts on features that are absent from an event. To make up for this, the
// noise of a present feature is multiplied by the number of all events and divided by the number of events that had the
// feature. Features in pairs have the factor 0, because the noise of a pair depends on the sum of its parts, see sumPair.
// In an Input without an Event, all factors are 0. The result is in.Basis.
func (e *Expert) basis(in *experts.Input) []float64 {
	x := in.Values
	if cap(in.Basis) < len(x) {
		in.Basis = make([]float64, 2*len(x))
	}
	in.Basis = in.Basis[:len(x)]
	to := in.Basis
	switch {
	case in.Event == nil:
		clear(to)
		return to
	case e.kind == square:
		for i, x := range x {
			to[i] = x * x
		}
	case e.kind == linear:
		for i, x := range x {
			to[i] = max(x, 0)
		}
	default:
		for i, row := range in.Rows {
			to[i] = float64(in.Event.Number) / max(row[model.StatCount], 1)
		}
	}
	if to[in.Event.Features()] = 0; e.step.groups == nil {
		for _, p := range in.Event.Pairs {
			to[p[0]], to[p[1]] = 0, 0
		}
	}
	return to
}

// GroupParts fills to with the groups of the features of the latest event that was learned. It also adds, for each group,
// the part of the noise levels' mixed score that the group contributed. A pair of groups counts pairs times. to is
// empty if no features are dropped together.
func (e *Expert) GroupParts(in *experts.Input, mixture []float64, pairs float64, to *experts.Groups) {
	g := e.step.groups
	if to.Keys = to.Keys[:0]; g == nil {
		return
	}
	to.Keys, to.Of = g.Keys(to.Keys), to.Of[:0]
	for _, i := range in.Source {
		to.Of = append(to.Of, g.GroupOf(i))
	}
	to.Sums = slices.Grow(to.Sums[:0], len(to.Keys)*e.Outputs)[:len(to.Keys)*e.Outputs]
	clear(to.Sums)
	for v, fraction := range mixture {
		if fraction != 0 {
			g.AddPublished(&e.step.together, rows.FirstPart, v*e.Outputs, e.Outputs, fraction, e.levels[v].LagWeight(), pairs, to.Sums)
		}
	}
}

// sumGroups orders the rows of an event, which are of, by group and sums the groups. If the features of a pair have a
// group, they are dropped with that group.
func (e *Expert) sumGroups(x *experts.Input, of [][]float64) {
	s, in, n := &e.step, x.Event, x.Event.Features()
	s.together.Reset(n)
	s.together.Rows = append(s.together.Rows, of[:n]...)
	copy(s.together.X, in.X)
	copy(s.together.Basis, x.Basis)
	s.groups.ArrangeColumns(&s.together, in.Fields, in.Columns[:n], in.Splines)
	s.together.AddIntercepts(of[n], 0)
	s.together.X[n] = in.X[n]
	s.summed = slices.Grow(s.summed[:0], 2*e.layout.N)[:2*e.layout.N]
	s.groups.Sum(&s.together, rows.FirstPart, e.layout.N, s.summed[:e.layout.N], s.summed[e.layout.N:])
}

// variances computes the variances of the iterates' scores under the noise, in e.step.Variance. sums is the result of Sum,
// and of has the event's rows.
func (e *Expert) variances(in *experts.Input, of [][]float64, sums []float64) {
	out := e.step.Variance
	switch k := e.Outputs; {
	case e.step.groups != nil:
		e.sumGroups(in, of)
		copy(out, e.step.groups.Variance)
	case e.Clean:
	case e.kind == constant:
		for v := range e.levels {
			for j, sum := range e.levels[v].squares {
				out[v*k+j] = e.levels[v].strength * sum
			}
		}
	default:
		for v := range e.levels {
			for j := v * k; j < (v+1)*k; j++ {
				out[j] = e.levels[v].strength * sums[2*e.layout.N+j]
			}
		}
	}
}

// averageVariances returns the variances of the averages' scores. If the noise is constant, it returns the variances of
// the iterates' scores, which are nearly equal.
func (e *Expert) averageVariances(in *experts.Input) []float64 {
	s := &e.step
	if e.Clean || e.kind == constant {
		return s.Variance
	}
	for j := range s.coefficient {
		s.coefficient[j] = e.levels[j/e.Outputs].Coefficient
	}
	if s.groups != nil {
		s.groups.Averages(&s.together, rows.FirstPart, e.layout.N, s.coefficient, s.average)
		return s.average
	}
	n := in.Event.Features()
	clear(s.average)
	rows.SumAverages(in.Rows[:n], rows.FirstPart, e.layout.N, in.Basis[:n], s.coefficient, s.average)
	e.comparePairs(in.Event, s.average)
	for j := range s.average {
		s.average[j] *= e.levels[j/e.Outputs].strength
	}
	return s.average
}

// addSquares adds sign times the squared weights of an event's features to the sums of squares.
func (e *Expert) addSquares(in *encode.Input, sign float64) {
	if e.kind != constant {
		return
	}
	for _, row := range in.Rows[:in.Features()] {
		for j, w := range e.layout.Weights(row) {
			sum := &e.levels[j/e.Outputs].squares[j%e.Outputs]
			*sum = max(0, *sum+sign*w*w)
		}
	}
}

// SetRates sets the rates at which groups are dropped, for the noise of the only level. If rates is nil, nothing
// changes. The caller must not change rates later.
func (e *Expert) SetRates(rates map[string]float64) {
	if !e.Observed || rates == nil {
		return
	}
	noise := loss.GroupDropout{Rates: rates}
	_, _, e.levels[0].strength = noise.Coefficients()
	e.Noises[0], e.step.Strength[0] = noise, e.levels[0].strength
	if e.step.groups != nil {
		e.step.groups.SetRates(noise)
	}
}

// ratesState encodes or decodes the observed rates.
func (e *Expert) ratesState(c *coder.Coder) {
	if !e.Observed {
		return
	}
	text := []byte(e.Noises[0].String())
	if c.Bytes(&text); !c.Decode || c.Failed {
		return
	}
	noise, err := loss.ParseNoise(string(text))
	g, ok := noise.(loss.GroupDropout)
	if c.Failed = err != nil || !ok && noise != loss.Noise(loss.NoNoise{}); ok && g.Rates != nil {
		e.SetRates(g.Rates)
	}
}

// sumPair computes a pair's part of the score, in in.Pairs, and adds its square to square.
func (e *Expert) sumPair(in *experts.Input, pair int, square []float64) {
	n, p := e.layout.N, in.Event.Pairs[pair]
	a, b := e.layout.Weights(in.Rows[p[0]]), e.layout.Weights(in.Rows[p[1]])
	x, z := in.Values[p[0]], in.Values[p[1]]
	sums, square := in.Pairs[pair*n:][:len(a)], square[:len(a)]
	b = b[:len(a)]
	for j, w := range a {
		sum := x*w + z*b[j]
		sums[j] = sum
		square[j] += sum * sum
	}
}

// comparePairs adds the squares of the pairs' parts of the averages' scores to square.
func (e *Expert) comparePairs(in *encode.Input, square []float64) {
	for _, p := range in.Pairs {
		a, b := in.Rows[p[0]], in.Rows[p[1]]
		x, z := in.X[p[0]], in.X[p[1]]
		for j, c := range e.step.coefficient {
			sum := x*(e.layout.Weights(a)[j]+c*e.layout.Lags(a)[j]) + z*(e.layout.Weights(b)[j]+c*e.layout.Lags(b)[j])
			square[j] += sum * sum
		}
	}
}

// segmentPairs divides the rows of the step into pairs and the rows between them. The gradient of a pair has a separate
// factor. It is the derivative with respect to the score plus the derivative with respect to the variance, which both
// features share.
func (e *Expert) segmentPairs(x *experts.Input) {
	s, in, n := &e.step, x.Event, e.layout.N
	padded := (n + 3) &^ 3 // see rows.NewStep
	factors := s.Factors((len(in.Pairs) + 1) * padded)
	none := factors[len(in.Pairs)*padded:][:padded]
	clear(none)
	df, shrink := s.DF[:n], s.Shrink[:n]
	for i := range in.Pairs {
		to := factors[i*padded:][:padded]
		clear(to[n:])
		for j, sum := range x.Pairs[i*n:][:n] {
			to[j] = df[j] + shrink[j]*sum
		}
	}
	from := 0
	s.Segments = s.Segments[:0]
	run := func(to int) {
		if from < to {
			s.Segments = append(s.Segments, rows.Segment{From: from, To: to, DF: s.DF, Shrink: s.Shrink, Strength: s.Strength})
		}
	}
	for side := range 2 { // numbers come first, then their presence columns in the same order
		for i, p := range in.Pairs {
			at := int(p[side])
			run(at)
			s.Segments = append(s.Segments, rows.Segment{From: at, To: at + 1, DF: factors[i*padded:][:n:padded], Shrink: none[:n], Strength: s.Strength})
			s.Basis[at] = in.X[at] * in.X[at]
			from = at + 1
		}
	}
	run(len(in.Rows))
}
