// Package impute estimates the missing numeric values of an event from its present values, and the variance of the
// error. The Gatherer estimates the covariance of numeric columns while events are learned. The package contains no
// model weights.
package impute

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"blankout/internal/coder"
	"blankout/internal/event"
	"blankout/internal/model"
	"blankout/online/encode"
)

// Imputer estimates the covariance of numeric columns, and imputes with it.
type Imputer struct {
	most         int // largest number of columns, 0 for none
	gathered     Gatherer
	inverseDecay float64        // factor of new events' weights, see Decay
	read         encode.Numbers // scratch for Gather
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
			read.Moved = append(read.Moved, encode.Moved{Column: move.Column, Was: move.Was, Is: move.Is})
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
	m.gathered.Follow(&encode.Numbers{Removed: r.Removed}, false, 0, 0, nil, nil)
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

// The part below gathers the covariance of numeric columns.

// Gatherer estimates the covariance of numeric columns. It stores the weighted mean of the standardized values, and the
// sums of products of deviations from that mean. From time to time it computes the Covariance in effect from these
// sums. Between these times, imputation can cache results for a pattern of missing columns. All intervals are counted
// in events, and no result depends on the cache.
//
// A value that is null, absent or an outlier is replaced by its imputed value, with the variance of the imputation.
// Recent events have more weight: the sums cover covarianceMemory gathered events, or fewer with a half-life. If an
// alarm makes the learner forget, the sums are multiplied by a tenth.
type Gatherer struct {
	most         int      // largest number of columns
	Columns      []uint32 // ascending
	fields       []uint16 // field of each column, see model.Covariance
	Gathered     uint64   // number of gathered events
	sums         Sums     // sums over the standardized values of the events
	unit         float64  // weight of the next event
	inverseDecay float64  // Imputer.inverseDecay at the last event
	due          bool     // columns have changed, so the next event recomputes the Covariance

	Covariance *model.Covariance // the covariance in effect; nil for fewer than two columns

	// Scratch memory for the current event.
	x     []float64
	parts model.ColumnRoles
}

// NewGatherer returns a Gatherer for at most the given number of columns.
func NewGatherer(most int) Gatherer { return Gatherer{most: most} }

const (
	// covarianceMemory is the largest number of gathered events that the sums cover.
	covarianceMemory = 16_384
	// One event in gatherLeast is gathered until there are gatherFirst gathered events per column. After that, one
	// event in columns/gatherColumns is gathered, but at most one in gatherLeast.
	gatherLeast, gatherFirst, gatherColumns = 4, 8, 8
	// An event with k missing columns is much more expensive to gather. Of such events at most one in k^2/gatherMissing
	// is gathered, and at the start one in k^2/gatherMissingFirst.
	gatherMissing, gatherMissingFirst = 80, 640
	// movedFar is the change of a column's center or scale, in standard deviations, after which the Covariance is
	// recomputed.
	movedFar = 0.1
	// covarianceRidge is the number of uncorrelated events that are added per column, because few events do not
	// determine a covariance.
	covarianceRidge = 0.1
	// maxUnit is the unit (the weight of a new event) at which all sums are divided by it.
	maxUnit = 1e100
)

// Every returns the interval, in events, at which an event is gathered. The cost of a gathered event grows with the
// square of the number of columns, while the other costs of learning grow linearly.
func (f *Gatherer) Every() uint64 {
	n := uint64(len(f.Columns))
	if f.Gathered < gatherFirst*n {
		return gatherLeast
	}
	return max(gatherLeast, n/gatherColumns)
}

// passesOver reports whether the event with this number is not gathered because it has too many missing columns. The
// cost of a gathered event grows with the square of the number of missing columns.
func (f *Gatherer) passesOver(number uint64, missing int) bool {
	spare := gatherMissing
	if f.Gathered < gatherFirst*uint64(len(f.Columns)) {
		spare = gatherMissingFirst
	}
	every := f.Every()
	return number/every%max(1, uint64(missing*missing/spare)/every) != 0
}

// Follow processes the event with this number: its changed scales and, if gathers is true, its values. inverseDecay is
// the weight of a new event, see Imputer.Decay. zeros lists the columns that are 0 if absent.
func (f *Gatherer) Follow(r *encode.Numbers, gathers bool, number uint64, inverseDecay float64, fields []event.Field, zeros []uint32) {
	for _, m := range r.Moved {
		f.moved(m.Column, m.Was, m.Is)
	}
	if gathers && len(r.Values)+len(r.Spread) > 0 {
		f.gather(r, number, inverseDecay, fields, zeros)
	}
	for _, column := range r.Removed {
		f.remove(column)
	}
}

// Choose replaces the columns that are 0 if absent, which were was, by now.
func (f *Gatherer) Choose(was, now []uint32) {
	for _, column := range was {
		if _, stays := slices.BinarySearch(now, column); !stays {
			f.remove(column)
		}
	}
	for _, column := range now {
		if at, known := slices.BinarySearch(f.Columns, column); !known && len(f.Columns) < f.most {
			f.insert(at, column, 0)
		}
	}
}

// gather adds the numeric values of an event to the sums.
func (f *Gatherer) gather(r *encode.Numbers, number uint64, inverseDecay float64, fields []event.Field, zeros []uint32) {
	if len(f.Columns) < f.most {
		for _, v := range r.Values {
			if at, known := slices.BinarySearch(f.Columns, v.Column); !known && len(f.Columns) < f.most {
				name := fields[v.Field].Name
				f.insert(at, v.Column, uint16(slices.IndexFunc(fields, func(f event.Field) bool { return f.Name == name })))
			}
		}
	}
	n := len(f.Columns)
	if n < 2 {
		return
	}
	f.x, f.parts = slices.Grow(f.x[:0], n)[:n], slices.Grow(f.parts[:0], n)[:n]
	for i := range f.parts {
		f.parts[i] = model.Imputed
	}
	held := 0
	for at := range model.CommonColumns(f.Columns, zeros) {
		f.x[at], f.parts[at] = 0, model.Observed
		held++
	}
	held += f.addValues(r.Values)
	held += f.addValues(r.Spread)
	if held == 0 || f.passesOver(number, n-held) {
		return
	}
	if f.due || f.Covariance == nil || renewsAt(f.Gathered, n) {
		f.renew()
	}
	keep := min(1-1.0/covarianceMemory, f.inverseDecay/inverseDecay)
	f.inverseDecay = inverseDecay
	if f.unit /= keep; f.unit > maxUnit {
		f.scale(1 / f.unit)
	}
	f.Gathered++
	if held < n {
		if f.Covariance == nil || len(f.Covariance.Columns) != n {
			return
		}
		fill := f.Covariance.Imputation(f.parts)
		fill.Expect(f.x)
		fill.AddResidual(f.unit, f.sums.Squares)
	}
	f.sums.Add(f.unit, f.x)
}

// addValues records the values of columns for the current event. more is the resulting increase of the number of
// observed columns.
func (f *Gatherer) addValues(values []encode.Number) (more int) {
	next := 0
	for _, v := range values {
		at := next
		if at == len(f.Columns) || f.Columns[at] != v.Column { // usually the columns are in order
			var known bool
			if at, known = slices.BinarySearch(f.Columns, v.Column); !known {
				continue
			}
		}
		next = at + 1
		was := f.parts[at] == model.Observed
		f.x[at], f.parts[at] = v.X, model.Observed
		if model.IsOutlier(v.X) {
			f.parts[at] = model.Imputed
		}
		switch is := f.parts[at] == model.Observed; {
		case is && !was:
			more++
		case was && !is:
			more--
		}
	}
	return more
}

// renewsAt reports whether the Covariance is recomputed after the given number of gathered events. Between successive
// powers of two it is recomputed four times, or twice for many columns.
func renewsAt(gathered uint64, n int) bool {
	parts := uint64(4)
	if n > 64 {
		parts = 2
	}
	if gathered < max(8, uint64(n)/4) {
		return false
	}
	power := uint64(1) << min(bits.Len64(gathered)-1, 13)
	return gathered%(power/parts) == 0
}

// renew recomputes the Covariance in effect.
func (f *Gatherer) renew() {
	f.due = false
	// Covariances between columns shrink as if uncorrelated events had been added to the sums.
	certain := f.sums.Weight / (f.sums.Weight + covarianceRidge*float64(len(f.Columns))*f.unit)
	if c := f.sums.Covariance(f.Columns, f.fields, certain); c != nil {
		f.Covariance = c
	}
}

// scale multiplies all weights.
func (f *Gatherer) scale(by float64) {
	f.unit *= by
	f.Forget(by)
}

// Forget multiplies the sums by keep.
func (f *Gatherer) Forget(keep float64) {
	f.sums.Weight *= keep
	for i := range f.sums.Squares {
		f.sums.Squares[i] *= keep
	}
}

// insert adds a column, as if it had been observed in one event with standard deviation 1.
func (f *Gatherer) insert(at int, column uint32, field uint16) {
	n := len(f.Columns)
	if n == 0 {
		f.sums.Weight, f.unit, f.inverseDecay = 1, 1, 1
	}
	f.Columns, f.fields, f.sums.Mean = slices.Insert(f.Columns, at, column), slices.Insert(f.fields, at, field), slices.Insert(f.sums.Mean, at, 0)
	squares := make([]float64, (n+1)*(n+1))
	for i := range n {
		to, from := squares[i*(n+1):], f.sums.Squares[i*n:][:i+1]
		if i >= at {
			to = to[n+1:]
			copy(to[at+1:], from[at:])
			from = from[:at]
		}
		copy(to, from)
	}
	squares[at*(n+1)+at] = f.sums.Weight
	f.sums.Squares, f.due = squares, true
}

func (f *Gatherer) remove(column uint32) {
	at, known := slices.BinarySearch(f.Columns, column)
	if !known {
		return
	}
	n := len(f.Columns)
	f.Columns, f.fields, f.sums.Mean = slices.Delete(f.Columns, at, at+1), slices.Delete(f.fields, at, at+1), slices.Delete(f.sums.Mean, at, at+1)
	squares := make([]float64, 0, (n-1)*(n-1))
	for i := range n {
		for j := range n {
			if i != at && j != at {
				squares = append(squares, f.sums.Squares[i*n+j])
			}
		}
	}
	f.sums.Squares, f.due = squares, true
	if len(f.Columns) < 2 {
		f.Covariance = nil
	}
}

// moved adapts the sums to a change of a column's scale. The change replaces a standardized value z by (z -
// shift)/ratio.
func (f *Gatherer) moved(column uint32, was, is model.Standardization) {
	at, known := slices.BinarySearch(f.Columns, column)
	if !known {
		return
	}
	if was.Unit != is.Unit || was.Scale == 0 || is.Scale == 0 { // the meaning of the values has changed
		f.sums.Mean[at] = 0
		f.each(at, func(x *float64, own bool) {
			if *x = 0; own {
				*x = f.sums.Weight
			}
		})
		f.due = true
		return
	}
	ratio, shift := is.Scale/was.Scale, (is.Center-was.Center)/was.Scale
	f.sums.Mean[at] = (f.sums.Mean[at] - shift) / ratio
	f.each(at, func(x *float64, own bool) {
		if *x /= ratio; own {
			*x /= ratio
		}
	})
	f.due = f.due || math.Abs(shift) > movedFar || math.Abs(math.Log(ratio)) > movedFar
}

// each calls do with every entry in the row and in the column of Squares with index at. own is true for the diagonal
// entry.
func (f *Gatherer) each(at int, do func(x *float64, own bool)) {
	n := len(f.Columns)
	for j := range n {
		do(&f.sums.Squares[max(at, j)*n+min(at, j)], j == at)
	}
}

// State encodes or decodes the state, except the Covariance in effect.
func (f *Gatherer) State(c *coder.Coder) {
	c.Uint32s(&f.Columns)
	c.Uint16s(&f.fields)
	c.Uint(&f.Gathered)
	c.Each(&f.sums.Weight, &f.unit, &f.inverseDecay)
	c.Floats(&f.sums.Mean)
	n := len(f.Columns)
	var triangle []float64
	for i := range n {
		if !c.Decode {
			triangle = append(triangle, f.sums.Squares[i*n:i*n+i+1]...)
		}
	}
	c.Floats(&triangle)
	if c.Decode {
		if len(triangle) != n*(n+1)/2 || n > model.MaxCovariance || len(f.fields) != n || len(f.sums.Mean) != n || !slices.IsSorted(f.Columns) {
			c.Failed = true
			return
		}
		f.sums.Squares = make([]float64, n*n)
		for i := range n {
			triangle = triangle[copy(f.sums.Squares[i*n:i*n+i+1], triangle):]
		}
	}
	c.Bool(&f.due)
}
