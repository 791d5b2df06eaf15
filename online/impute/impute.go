// Package impute estimates the missing numeric values of an event from its present values, and the variance of the
// error. The Gatherer estimates the covariance of numeric columns while events are learned. The package contains no
// model weights.
package impute

import (
	"cmp"
	"math"
	"slices"

	"blankout/internal/coder"
	"blankout/internal/event"
	"blankout/internal/model"
	"blankout/online/encode"
	"blankout/online/scaling"
)

// Imputer estimates the covariance of numeric columns, and imputes with it.
type Imputer struct {
	most         int // largest number of columns, 0 for none
	gathered     Gatherer
	inverseDecay float64      // factor of new events' weights, see Decay
	read         scaling.Read // scratch for Gather
}

// New returns an Imputer for at most the given number of columns.
func New(most int) *Imputer {
	return &Imputer{most: most, gathered: NewGatherer(most), inverseDecay: 1}
}

// Covariance returns the Covariance in effect, or nil if there are fewer than two columns.
func (m *Imputer) Covariance() *model.Covariance { return m.gathered.Covariance }

// Columns returns the number of columns.
func (m *Imputer) Columns() int { return len(m.gathered.Columns) }

// mostInverseDecay bounds the weight of new events relative to the first events. Beyond it, the weight of the first
// events is negligible.
const mostInverseDecay = 1e100

// Decay multiplies the weight of earlier events by keep.
func (m *Imputer) Decay(keep float64) {
	if m.inverseDecay /= keep; m.inverseDecay > mostInverseDecay {
		m.inverseDecay = 1
	}
}

// Gather updates the covariance from a labeled event that the encoder has just observed. may is false for events whose
// values must not be gathered.
func (m *Imputer) Gather(in *encode.Input, n *encode.Encoder, may bool) {
	if m.most == 0 {
		return
	}
	read := &m.read
	read.Clear()
	if m.Columns() > 0 {
		for _, move := range in.Moves {
			read.Moved = append(read.Moved, scaling.Moved{Column: move.Column, Was: move.Was, Is: move.Is})
		}
	}
	gathers := may && in.Number%m.gathered.Every() == 0
	if gathers {
		n.Numbers(in, read)
	}
	m.gathered.Follow(read, gathers, in.Number, m.inverseDecay, n.Schema().Fields, n.Fields.Missing.Zeros)
}

// Review updates the columns after the encoder has reviewed which columns are numeric. In a sparse text format that can
// declare columns missing, the columns that are 0 if absent are also imputed. If there are too many columns, only the
// most frequent columns are imputed.
func (m *Imputer) Review(r *encode.Review, n *encode.Encoder) {
	if m.most == 0 {
		return
	}
	if missing := n.Fields.Missing; r.Some && missing.ColumnsCanBeMissing {
		n.Fields.Missing = missing.WithZeros(m.zeros(n))
		m.gathered.Choose(missing.Zeros, n.Fields.Missing.Zeros)
	}
	m.gathered.Follow(&scaling.Read{Removed: r.Removed}, false, 0, 0, nil, nil)
}

// zeros returns the imputed columns that are 0 if absent.
func (m *Imputer) zeros(n *encode.Encoder) []uint32 {
	columns := slices.Clone(n.Scaling.SpreadColumns())
	often := func(column uint32) float64 {
		if row := n.Table.Row(column); row != nil {
			return row[model.StatCount]
		}
		return 0
	}
	slices.SortStableFunc(columns, func(a, b uint32) int { return cmp.Compare(often(b), often(a)) })
	columns = columns[:min(len(columns), max(0, m.most-len(n.Scaling.Scaler.Dense)))]
	slices.Sort(columns)
	return columns
}

// Numbers holds an event's values of the Covariance's columns, by index in the Covariance.
type Numbers struct {
	X           []float64         // values of columns that are Observed
	Parts       model.ColumnRoles // Observed, or Imputed for missing columns
	SomeMissing bool              // some columns are missing
	places      []int             // by feature of the event: the index of its column in the Covariance, or -1
}

// Read sets to to the numeric values of the last encoded event.
func (m *Imputer) Read(in *encode.Input, n *encode.Encoder, to *Numbers) {
	c := m.Covariance()
	if c == nil {
		to.X, to.Parts, to.SomeMissing, to.places = to.X[:0], to.Parts[:0], false, to.places[:0]
		return
	}
	h := model.Linear{Head: model.Head{Schema: n.Schema(), Scaler: n.Scaling.Scaler, Missing: n.Fields.Missing, Covariance: c}}
	to.Parts, to.SomeMissing = h.AllRoles(in.Event, n.Fields.Present, to.Parts)
	columns, x := in.Columns[:in.Features()], in.X[:in.Features()]
	to.X = slices.Grow(to.X[:0], len(c.Columns))[:len(c.Columns)]
	clear(to.X)
	to.places = to.places[:0]
	for range columns {
		to.places = append(to.places, -1)
	}
	for at, i := range model.CommonColumns(c.Columns, columns) {
		to.places[i], to.X[at] = at, x[i]
	}
	h.MarkOutliers(event.Vec{Index: columns, Value: x}, to.Parts)
}

// Mask sets to to the values that remain if some features of the event are missing. dead is by feature.
func (n *Numbers) Mask(dead []bool, to *Numbers) {
	to.X, to.Parts, to.SomeMissing = append(to.X[:0], n.X...), append(to.Parts[:0], n.Parts...), n.SomeMissing
	for i, place := range n.places {
		if place >= 0 && dead[i] {
			to.Parts[place], to.SomeMissing = model.Imputed, true
		}
	}
}

// Expected holds the imputed values of an event.
type Expected struct {
	// Input has the imputed values as features. Its intercept is 0, and it has no splines.
	Input      encode.Input
	filled     encode.Input // result of Filled
	imputation *model.Imputation
	places     []int     // by feature: index of its column in the Covariance
	x          []float64 // imputed values by index in the Covariance
	w, solved  []float64 // scratch for Variances
}

// Expect imputes the missing numeric values of an event.
func (m *Imputer) Expect(n *Numbers, e *encode.Encoder, to *Expected) {
	c := m.Covariance()
	to.imputation, to.places, to.x = c.Imputation(n.Parts), to.places[:0], append(to.x[:0], n.X...)
	to.Input.Columns, to.Input.Rows, to.Input.X = to.Input.Columns[:0], to.Input.Rows[:0], to.Input.X[:0]
	if to.imputation != nil {
		to.imputation.Expect(to.x)
		for place, part := range n.Parts {
			if part != model.Imputed {
				continue
			}
			if row := e.Table.Row(c.Columns[place]); row != nil {
				to.places = append(to.places, place)
				to.Input.Columns = append(to.Input.Columns, c.Columns[place])
				to.Input.Rows, to.Input.X = append(to.Input.Rows, row), append(to.Input.X, to.x[place])
			}
		}
	}
	to.Input.Rows, to.Input.X = append(to.Input.Rows, e.Intercepts), append(to.Input.X, 0)
}

// Filled returns Input with the splines of the imputed values, as of a number that is present. It is valid until the next
// call.
func (x *Expected) Filled(e *encode.Encoder) *encode.Input {
	to, n, s := &x.filled, len(x.places), e.Scaling.Scaler
	to.Columns, to.Rows, to.X, to.Raw = append(to.Columns[:0], x.Input.Columns...), append(to.Rows[:0], x.Input.Rows[:n]...), append(to.X[:0], x.Input.X[:n]...), to.Raw[:0]
	for i, value := range x.Input.X[:n] {
		to.Raw = append(to.Raw, s.Standardization(x.Input.Rows[i]).Raw(value))
	}
	for _, column := range x.Input.Columns {
		spline := s.Splines.Of(column)
		if spline < 0 || !model.IsPresence(s.Splines.Knots[spline]) {
			continue
		}
		presence := s.Splines.BasisColumn(spline, 0)
		if row := e.Table.Row(presence); row != nil {
			to.Columns, to.Rows, to.X, to.Raw = append(to.Columns, presence), append(to.Rows, row), append(to.X, 1), append(to.Raw, 1)
		}
	}
	to.Rows, to.X = append(to.Rows, e.Intercepts), append(to.X, 0)
	return to
}

// Variances writes the variance of the sum over columns of weight times imputed value to out, by output. weights has the
// weights of the columns of Input, each with a weight for each of the outputs, of which the first are in out.
func (x *Expected) Variances(weights []float64, outputs int, out []float64) {
	if clear(out); x.imputation == nil {
		return
	}
	n, size := len(x.x), len(x.x)*len(out)
	x.w = slices.Grow(x.w[:0], size)[:size]
	clear(x.w)
	for i, place := range x.places {
		for k, weight := range weights[i*outputs:][:len(out)] {
			x.w[k*n+place] = weight
		}
	}
	x.solved = x.imputation.Variances(x.w, out, x.solved)
}

// State encodes or decodes the sums. It omits the Covariance in effect, which is in the model. If there are more
// columns than the limit allows, all sums are discarded.
func (m *Imputer) State(c *coder.Coder, inForce *model.Covariance, zeros []uint32) {
	c.Float(&m.inverseDecay)
	if m.gathered.State(c); !c.Decode {
		return
	}
	if m.gathered.Covariance = inForce; len(m.gathered.Columns) > m.most {
		*m = *New(m.most)
		m.gathered.Choose(nil, zeros)
	}
	c.Failed = c.Failed || !(m.inverseDecay >= 1 && !math.IsInf(m.inverseDecay, 1))
}
