package model

// This file explains a score by the contribution of each feature.

import (
	"cmp"
	"iter"
	"math"
	"slices"

	"blankout/internal/event"
	"blankout/internal/loss"
)

// Explanation explains a score: Score is the sum of Intercept, Imputed, Cosines and the Contributions of the Terms.
type Explanation struct {
	Score     float64
	Intercept float64
	// Imputed is the change of the score by imputation that Terms does not contain: the weights of the observed columns
	// already contain the main part. Imputed includes the reduction of the score because imputed values are uncertain
	// (see Head.Covariance).
	Imputed float64
	// Cosines is what the model's cosines add to the score. Each cosine depends on several numbers together, so Terms does
	// not contain this part.
	Cosines float64
	// Variance is the variance of the linear part of the score under the model's noise.
	Variance float64
	Terms    []Term // sorted by the absolute value of their contribution, descending
}

// Term is the contribution of a feature to a score.
type Term struct {
	Column uint32
	Field  uint16  // field of the event's entry, 0 for a column that the event does not have
	Raw    float64 // raw value in the event
	Value  float64 // standardized value
	// Weight is the model's weight. For an observed column, it includes the weight that the column gets for imputing
	// other columns.
	Weight float64
	// Spline is the contribution of the column's spline, beyond Weight times Value.
	Spline float64
	// Contribution is Weight times Value plus Spline. If fields are missing, it is also multiplied by the factor of
	// Head.Handling.
	Contribution float64
	// Fraction is the feature's fraction of the score's variance under the model's noise: its covariance with the
	// score, divided by that variance. It is negative for a feature whose contribution offsets other features of its
	// group. If there is no noise, Fraction is the fraction under dropout, which is equal for all dropout rates.
	Fraction float64
	Known    bool // the model has a row for the column
}

// Explain explains the score of a class for an event: the score of the class's output. If there are two classes with
// one output, this is the score for class 1, and the negated score for class 0. If the model separates pairs of
// classes, it is the sum of the class's margins over the other classes. Columns that the Scaler fills in are terms too.
func (m *Linear) Explain(e *event.Example, class int) Explanation {
	side := m.ClassSigns(class)
	a, whole := m.Handling(e), m
	m = m.At(a)
	var x Explanation
	for k, s := range side {
		x.Intercept += s * m.Intercept[k]
	}
	noise, err := loss.ParseNoise(m.Noise)
	if err != nil {
		noise = loss.NoNoise{} // a model file may name an unknown noise
	}
	c0, c1, c2 := noise.Coefficients()
	scale := a.Scale
	for t := range m.Terms(e, class) {
		x.Score += t.Contribution
		x.Terms = append(x.Terms, t)
	}
	x.Cosines = m.cosinesOf(e, a, side)
	x.Score += x.Intercept + x.Cosines
	if a.Roles != nil {
		score := 0.0
		for k, f := range whole.AnswerOutputs(m.Standardized(e, event.Vec{}), a, make([]float64, m.Outputs)) {
			score += side[k] * f
		}
		x.Imputed, x.Score = score-x.Score, score
	}
	of := make([]float64, len(x.Terms)) // part of the variance of each term
	n, ok := noise.(loss.GroupDropout)
	silent, _ := noise.(loss.Silent)
	if silent.Groups { // use c2 times the covariances under dropout with odds 1
		n = loss.GroupDropout{Groups: 0.5}
	}
	if ok || silent.Groups {
		g := NewGrouping(m.Schema)
		var units []int32
		var parts []float64
		for _, t := range x.Terms {
			units, parts = append(units, g.Of(t.Field, t.Column)), append(parts, t.Contribution)
		}
		of = g.covariances(n, units, parts)
		for i := range of {
			if silent.Groups {
				of[i] *= c2
			}
		}
	} else {
		for i, t := range x.Terms {
			of[i] = scale*scale*t.Weight*t.Weight*c1*t.Value + c2*t.Contribution*t.Contribution
		}
	}
	for _, v := range of {
		x.Variance += v
	}
	if c0 > 0 { // c0 acts on every column, including absent columns
		for i := range m.Rows.Len() {
			_, row := m.Rows.Column(i)
			w := m.SideWeight(side, row)
			x.Variance += scale * scale * c0 * w * w
		}
	}
	for i, t := range x.Terms {
		of[i] += scale * scale * c0 * t.Weight * t.Weight
	}
	x.setFractions(of)
	slices.SortStableFunc(x.Terms, func(a, b Term) int {
		return cmp.Or(cmp.Compare(math.Abs(b.Contribution), math.Abs(a.Contribution)), cmp.Compare(a.Column, b.Column))
	})
	return x
}

// cosinesOf returns the part of the cosines in the score of a class, see ClassSigns.
func (m *Linear) cosinesOf(e *event.Example, a MissingHandling, side []float64) (sum float64) {
	if !m.Cosines.count(a.Range) {
		return 0
	}
	x, out := m.Standardized(e, event.Vec{}), make([]float64, m.Outputs)
	if a.Roles != nil {
		m.MarkOutliers(x, a.Roles)
	}
	m.AddCosines(x, a, out)
	for k, s := range side {
		sum += s * out[k]
	}
	return sum
}

// Terms yields the Terms of Explain in ascending order of columns, without Fraction.
func (m *Linear) Terms(e *event.Example, class int) iter.Seq[Term] {
	return func(yield func(Term) bool) {
		side := m.ClassSigns(class)
		e := m.declared(e)
		a := m.Handling(e)
		m := m.At(a)
		var r *imputedWeights
		var columns []uint32 // columns of r that are not yielded yet
		if a.Roles != nil {
			r, columns = m.imputedWeightsOf(m.Standardized(e, event.Vec{}), a.Roles), m.Covariance.Columns
		}
		at := 0 // index in the event
		for column, raw := range m.Scaler.numbers(e.Features) {
			if e.MissesColumn(column) {
				continue
			}
			t := Term{Column: column, Raw: raw}
			if at < len(e.Features.Index) && e.Features.Index[at] == column {
				if len(e.Field) > 0 {
					t.Field = e.Field[at]
				}
				at++
			}
			if row := m.Rows.Row(column); row != nil {
				t.Known, t.Value = true, m.standardize(row, raw)
				t.Weight = m.SideWeight(side, row)
				for len(columns) > 0 && columns[0] < column {
					columns = columns[1:]
				}
				if len(columns) > 0 && columns[0] == column {
					place := len(a.Roles) - len(columns)
					for k, extra := range r.extra[place*m.Outputs:][:m.Outputs] {
						t.Weight += side[k] * extra * a.Imputes() / a.Scale
					}
				}
				if spline := m.Scaler.Splines.Of(column); spline >= 0 {
					t.Spline = m.SplineScore(side, spline, raw)
				}
				t.Contribution = a.Scale * (t.Weight*t.Value + t.Spline)
			}
			if !yield(t) {
				return
			}
		}
	}
}

// SplineScore returns the contribution of a spline to a score if its numeric column has the value x. It omits the
// weight of the numeric column itself. side is the result of ClassSigns for the class.
func (m *Linear) SplineScore(side []float64, spline int, x float64) (sum float64) {
	c := m.Scaler.Splines
	knot, first, next := c.BasisValues(spline, x)
	for i, hat := range [2]float64{first, next} {
		if hat == 0 {
			continue
		}
		if row := m.Rows.Row(c.BasisColumn(spline, knot+i)); row != nil {
			sum += hat * m.SideWeight(side, row)
		}
	}
	return sum
}

// Number returns the contribution of a numeric column with the value x to a score: its weight times the standardized
// value, and its spline. side is the result of ClassSigns for the class.
func (m *Linear) Number(side []float64, column uint32, x float64) (sum float64) {
	if row := m.Rows.Row(column); row != nil {
		sum = m.standardize(row, x) * m.SideWeight(side, row)
	}
	if spline := m.Scaler.Splines.Of(column); spline >= 0 {
		sum += m.SplineScore(side, spline, x)
	}
	return sum
}

// SideWeight returns the weight of a row of m.Rows in the score of a class. side is the result of ClassSigns for the
// class.
func (m *Linear) SideWeight(side, row []float64) (w float64) {
	for k, s := range side {
		if s != 0 {
			w += s * m.weight(row, k)
		}
	}
	return w
}

// setFractions sets the Fraction of each term. of has the part of the variance of each term.
func (x *Explanation) setFractions(of []float64) {
	total := x.Variance
	if total == 0 {
		for i, t := range x.Terms {
			of[i] = t.Contribution * t.Contribution
			total += of[i]
		}
	}
	if total == 0 {
		return
	}
	for i := range x.Terms {
		x.Terms[i].Fraction = of[i] / total
	}
}

// ClassSigns returns the factor of each output in the score of a class, see Explain.
func (m *Linear) ClassSigns(class int) []float64 {
	side := make([]float64, m.Outputs)
	switch {
	case m.Pairs:
		i := 0
		for a := range m.Schema.Classes {
			for b := range a {
				switch class {
				case a:
					side[i] = 1
				case b:
					side[i] = -1
				}
				i++
			}
		}
	case m.Outputs == 1 && class == 0:
		side[0] = -1
	case m.Outputs == 1:
		side[0] = 1
	default:
		side[class] = 1
	}
	return side
}
