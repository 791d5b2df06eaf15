package silent

import (
	"math"
	"slices"

	"blankout/internal/loss"
	"blankout/online/optimizers"
	"blankout/online/rows"
)

// Event is the current event for a level with silent noise. Its values are the differences between the features x and
// their values z when silently missing (dead). Each difference has one value for each output of the level. All slices
// are valid until the next call of Take.
type Event struct {
	Noise loss.Silent
	Loss  loss.Loss
	// The noise level has Outputs outputs. Their indices start at First, among the N outputs of all noise levels.
	First, Outputs, N int

	rows.Event
	x     []float64 // x - z by row of a feature
	dead  []float64 // z by row of a feature
	units []int32   // unit with which each row is missing; nil if features are missing independently
	count int       // number of units

	iterate, average sums
	// Derivatives of the iterate's loss with respect to the score, the intercept and the squares, multiplied by the
	// importance.
	ds, di, dq []float64
	parts      []loss.ByRate // intermediate results for these

	gradients, roots []float64 // values by row and output
}

// sums holds, by output, the sums from which loss.Silent.At computes the loss of weights.
type sums struct {
	score, intercept, squares []float64
	units                     []float64 // by unit and output: sum of w (x-z)
}

// Take sets the rows of the event. dead has the values of the features when silently missing. units has the units
// (groups) with which the features are missing, or is nil if features are missing independently. Both slices are by
// row, and are used until the next event. The caller may set the Ridge between Begin and Step.
func (e *Event) Take(event rows.Event, dead []float64, units []int32) {
	e.Event, e.dead, e.units = event, dead, units
	e.x, e.count = e.x[:0], 0
	for i, z := range dead {
		e.x = append(e.x, event.X[i]-z)
	}
	for _, unit := range units {
		e.count = max(e.count, int(unit)+1)
	}
}

// zeros returns n zeros, in the memory of list if possible.
func zeros(list []float64, n int) []float64 {
	list = slices.Grow(list[:0], n)[:n]
	clear(list)
	return list
}

// part returns the noise level's values of part i of a row: 0 for weights, 1 for accumulators, 2 for lags.
func (e *Event) part(row []float64, i int) []float64 {
	at := rows.FirstPart + i*e.N + e.First
	return row[at : at+e.Outputs : at+e.Outputs]
}

// bias returns the row of the intercepts, or nil.
func (e *Event) bias() []float64 {
	if !e.Intercepts {
		return nil
	}
	return e.Rows[len(e.Rows)-1]
}

// sum computes, for the weights w + coefficient u, the sums over the event, in total and by unit.
func (e *Event) sum(s *sums, coefficient float64) {
	k := e.Outputs
	s.score, s.intercept, s.squares = zeros(s.score, k), zeros(s.intercept, k), zeros(s.squares, k)
	s.units = zeros(s.units, e.count*k)
	if bias := e.bias(); bias != nil {
		w, u := e.part(bias, 0), e.part(bias, 2)
		for j := range s.intercept {
			s.intercept[j] = w[j] + coefficient*u[j]
		}
	}
	for i, x := range e.x {
		w, u, z := e.part(e.Rows[i], 0), e.part(e.Rows[i], 2), e.dead[i]
		var unit []float64
		if e.units != nil {
			unit = s.units[int(e.units[i])*k:][:k]
		}
		for j, w := range w {
			a := math.FMA(coefficient, u[j], w)
			s.intercept[j] = math.FMA(a, z, s.intercept[j])
			if a *= x; unit != nil {
				unit[j] += a
				continue
			}
			s.score[j] += a
			s.squares[j] = math.FMA(a, a, s.squares[j])
		}
	}
	for at := 0; at < len(s.units); at += k {
		for j, a := range s.units[at : at+k] {
			s.score[j] += a
			s.squares[j] = math.FMA(a, a, s.squares[j])
		}
	}
}

// Begin computes the loss of the iterate and its derivatives. y has the targets of the outputs in use, which are the
// first outputs. The losses are written to value. slope is the derivative of the loss with respect to the coefficient
// of the lags, for constant squares.
func (e *Event) Begin(y []float64, importance float64, value []float64) (slope float64) {
	k := e.Outputs
	e.sum(&e.iterate, 0)
	e.ds, e.di, e.dq = zeros(e.ds, k), zeros(e.di, k), zeros(e.dq, k)
	e.parts = slices.Grow(e.parts[:0], k)[:k]
	s := &e.iterate
	for j := range y {
		value[j], e.parts[j] = e.Noise.ByRate(e.Loss, y[j], s.score[j], s.intercept[j], s.squares[j])
		e.ds[j], e.di[j], e.dq[j] = e.Noise.Sum(&e.parts[j])
	}
	if bias := e.bias(); bias != nil {
		for j, u := range e.part(bias, 2) {
			slope += e.di[j] * u
		}
	}
	for i, x := range e.x {
		for j, u := range e.part(e.Rows[i], 2) {
			slope += (e.ds[j]*x + e.di[j]*e.dead[i]) * u
		}
	}
	for j := range k {
		e.ds[j], e.di[j], e.dq[j] = importance*e.ds[j], importance*e.di[j], importance*e.dq[j]
	}
	return slope
}

// Gain returns the loss of the average (weights w + coefficient u) minus the loss of the iterate, which Begin has
// written to value.
func (e *Event) Gain(y []float64, coefficient float64, value []float64) (gain float64) {
	s := &e.average
	e.sum(s, coefficient)
	for j := range y {
		at, _, _, _ := e.Noise.At(e.Loss, y[j], s.score[j], s.intercept[j], s.squares[j])
		gain += at - value[j]
	}
	return gain
}

// Curvatures writes 2 dL/dsquares, which is the expected second derivative of the loss with respect to the score, to h
// by output in use. The derivative is averaged over both labels. positive has the probability of the positive label, by
// output. Curvatures does not need a call of Begin.
func (e *Event) Curvatures(positive, h []float64) {
	s := &e.iterate
	e.sum(s, 0)
	for j, p := range positive {
		_, _, _, up := e.Noise.At(e.Loss, 1, s.score[j], s.intercept[j], s.squares[j])
		_, _, _, down := e.Noise.At(e.Loss, -1, s.score[j], s.intercept[j], s.squares[j])
		h[j] = 2 * (p*up + (1-p)*down)
	}
}

// Settings are the settings of a step.
type Settings struct {
	Eta          float64 // learning rate
	Start        float64 // initial value of the accumulators
	InverseDecay float64 // factor of new terms of the accumulators, so that older events decay
	Inverse      float64 // factor of a weight's change in the change of its lag
	Importance   float64
	// Proximal selects proximal steps. Such a step minimizes the loss plus the distance from the old weights, in the
	// metric of the step.
	Proximal bool
}

// Step makes the step of AdaGrad. It must be called after Begin.
func (e *Event) Step(y []float64, c Settings) {
	if !c.Proximal && e.Outputs > 1 {
		e.stepRows(c)
		return
	}
	e.stepSlowly(y, c)
}

// stepRows makes the same steps as stepSlowly, but only steps that are not proximal. It uses the loop of package rows,
// one row at a time.
func (e *Event) stepRows(c Settings) {
	k, root := e.Outputs, math.Sqrt(c.InverseDecay)
	constants := rows.AdagradConstants{Start: c.Start * c.InverseDecay, Eps: optimizers.AdagradEps * root}
	room := slices.Grow(e.gradients[:0], 2*k+2*e.N)[:2*k+2*e.N]
	e.gradients = room
	df, shrink, rates := room[:k], room[k:2*k], room[2*k:]
	for j := range k {
		rates[j], rates[e.N+j] = -c.Eta, c.Inverse
		shrink[j] = 2 * root * e.dq[j] // only where basis is not 0: with units, df contains this part
	}
	at, one := rows.FirstPart+e.First, [1]float64{1}
	for i := range e.Rows {
		basis, ridge := [1]float64{}, [1]float64{root * e.Ridge[i]}
		switch {
		case i == len(e.x): // the row of the intercepts
			for j, di := range e.di {
				df[j] = root * di
			}
		case e.units == nil:
			x, z := root*e.x[i], root*e.dead[i]
			basis[0] = e.x[i] * e.x[i]
			for j, ds := range e.ds {
				df[j] = math.FMA(ds, x, e.di[j]*z)
			}
		default:
			x, z, unit := root*e.x[i], root*e.dead[i], e.iterate.units[int(e.units[i])*k:]
			for j, ds := range e.ds {
				df[j] = math.FMA(ds+2*e.dq[j]*unit[j], x, e.di[j]*z)
			}
		}
		rows.AdagradStep(e.Rows[i:i+1], at, e.N, one[:], basis[:], ridge[:], df, shrink, rates, &constants)
	}
}

// stepSlowly is the slow reference of stepRows, and also makes proximal steps. The weights of outputs that are not in
// use do not change: they are 0, and their gradient comes only from the ridge.
func (e *Event) stepSlowly(y []float64, c Settings) {
	k, n := e.Outputs, len(e.Rows)
	e.gradients, e.roots = slices.Grow(e.gradients[:0], n*k)[:n*k], slices.Grow(e.roots[:0], n*k)[:n*k]
	start, root := c.Start*c.InverseDecay, math.Sqrt(c.InverseDecay)
	least := optimizers.AdagradEps * root
	for i, row := range e.Rows {
		w, m := e.part(row, 0), e.part(row, 1)
		g, r := e.gradients[i*k:][:k], e.roots[i*k:][:k]
		e.gradient(i, w, g)
		for j := range g {
			g[j] *= root
			m[j] = math.FMA(g[j], g[j], m[j])
			r[j] = rows.InverseRoot(start+m[j], least)
		}
	}
	for j := range y {
		eta := c.Eta
		if c.Proximal {
			eta *= e.stepFraction(j, y[j], eta*root, c.Importance)
		}
		for i, row := range e.Rows {
			delta := -eta * e.gradients[i*k+j] * e.roots[i*k+j]
			e.part(row, 0)[j] += delta
			u := &e.part(row, 2)[j]
			*u = math.FMA(-delta, c.Inverse, *u)
		}
	}
}

// gradient writes the gradient with respect to the weights w of row i to g.
func (e *Event) gradient(i int, w, g []float64) {
	ridge := e.Ridge[i]
	if i == len(e.x) { // the row of the intercepts
		for j, w := range w {
			g[j] = e.di[j] + ridge*w
		}
		return
	}
	x, z := e.x[i], e.dead[i]
	if e.units == nil {
		for j, w := range w {
			g[j] = math.FMA(math.FMA(2*e.dq[j], x*x, ridge), w, math.FMA(e.ds[j], x, e.di[j]*z))
		}
		return
	}
	unit := e.iterate.units[int(e.units[i])*e.Outputs:]
	for j, w := range w {
		g[j] = math.FMA(ridge, w, math.FMA(e.ds[j]+2*e.dq[j]*unit[j], x, e.di[j]*z))
	}
}

// stepFraction returns the fraction of the step of output j that minimizes the loss plus the distance from the old
// weights. eta is the learning rate for gradients that are not multiplied by sqrt(InverseDecay). The squares are
// treated as constant.
func (e *Event) stepFraction(j int, y, eta, importance float64) float64 {
	// The weight in a feature's row changes by -eta r (ds x + di z), where r is the inverse root of the row's
	// accumulator. The following sums give the changes of score and intercept.
	k, xx, xz, zz := e.Outputs, 0.0, 0.0, 0.0
	for i, x := range e.x {
		r, z := e.roots[i*k+j], e.dead[i]
		xx, xz, zz = xx+r*x*x, xz+r*x*z, zz+r*z*z
	}
	if e.Intercepts {
		zz += e.roots[len(e.x)*k+j]
	}
	ds, di, s := e.ds[j], e.di[j], &e.iterate
	score, intercept := eta*(ds*xx+di*xz), eta*(ds*xz+di*zz)
	whole := ds*score + di*intercept
	if !(whole > leastMove) {
		return 1
	}
	// The fraction a solves a whole = importance dL/da. If the loss is convex, the right side decreases in a.
	along := func(p *loss.ByRate) (slope, curvature float64) {
		slope, curvature = e.Noise.Along(p, score, intercept)
		return importance * slope / whole, importance * max(curvature, 0) / whole
	}
	_, curvature := along(&e.parts[j])
	return optimizers.SolveFraction(math.Abs(score)+math.Abs(intercept), curvature, func(a float64) (slope, curvature float64) {
		_, p := e.Noise.ByRate(e.Loss, y, s.score[j]-a*score, s.intercept[j]-a*intercept, s.squares[j])
		return along(&p)
	})
}

// leastMove is the smallest reduction of the loss for which a step is shortened.
const leastMove = 1e-3
