package impute

// This file gathers the covariance of numeric columns.

import (
	"math"
	"math/bits"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"

	"blankout/internal/coder"
	"blankout/internal/event"
	"blankout/internal/model"
	"blankout/online/scaling"
)

// Gatherer gathers the covariance of numeric columns. It keeps the weighted mean of the standardized values, and the
// sums of products of deviations from it. From time to time it computes the Covariance in force from these, so that
// results for a pattern of missing columns can be cached. All intervals are counted in events, and nothing depends on
// the cache.
//
// A value that is null, absent or an outlier counts as its imputed value, with the variance of that. Recent events
// weigh more: the sums remember covarianceMemory gathered events, or as many as the half-life allows. An alarm that
// makes the learner forget leaves a tenth of the sums.
type Gatherer struct {
	most     int      // largest number of columns
	Columns  []uint32 // ascending
	fields   []uint16 // see model.Covariance
	Gathered uint64   // number of events
	weight   float64  // total weight of the events
	unit     float64  // weight of the next event
	growth   float64  // of the decay at the last event
	mean     []float64
	squares  []float64 // weighted sums of products of deviations, the lower triangle row by row
	due      bool      // columns have changed, so the next event computes the Covariance again

	Covariance *model.Covariance // in force; nil for fewer than two columns

	// Scratch for the current event.
	x        []float64
	parts    model.Parts
	residual []float64
}

// NewGatherer returns a Gatherer for at most so many columns.
func NewGatherer(most int) Gatherer { return Gatherer{most: most} }

const (
	// covarianceMemory is the largest number of events that are remembered.
	covarianceMemory = 16_384
	// One event in gatherLeast is gathered until there are gatherFirst times as many events as columns. After that it
	// is one in columns/gatherColumns, but at least one in gatherLeast.
	gatherLeast, gatherFirst, gatherColumns = 4, 8, 8
	// An event with k missing columns is much more expensive. At most one in k^2/gatherLacking events is gathered, and
	// at first one in k^2/gatherLackingFirst.
	gatherLacking, gatherLackingFirst = 80, 640
	// movedFar is the change of a column's center or scale, in deviations, at which the Covariance must be computed
	// again.
	movedFar = 0.1
	// covarianceRidge is the number of uncorrelated events that are added per column, because few events do not
	// determine a covariance.
	covarianceRidge = 0.1
	// maxUnit is the largest unit before all sums are divided by it.
	maxUnit = 1e100
)

// Every returns the number of events per gathered event. The cost of an event grows with the square of the columns,
// that of an update with their number.
func (f *Gatherer) Every() uint64 {
	n := uint64(len(f.Columns))
	if f.Gathered < gatherFirst*n {
		return gatherLeast
	}
	return max(gatherLeast, n/gatherColumns)
}

// passesOver reports whether to skip the event of a number because too many columns are missing from it. Its cost grows
// with the square of the missing columns.
func (f *Gatherer) passesOver(number uint64, lacks int) bool {
	spare := gatherLacking
	if f.Gathered < gatherFirst*uint64(len(f.Columns)) {
		spare = gatherLackingFirst
	}
	every := f.Every()
	return number/every%max(1, uint64(lacks*lacks/spare)/every) != 0
}

// Follow processes the event of a number: changes of scales and, if gathers is set, its values. growth is that of the
// half-life, see Imputer.Decay. zeros are the columns that are 0 if absent.
func (f *Gatherer) Follow(r *scaling.Read, gathers bool, number uint64, growth float64, fields []event.Field, zeros []uint32) {
	for _, m := range r.Moved {
		f.moved(m.Column, m.Was, m.Is)
	}
	if gathers && len(r.Values)+len(r.Spread) > 0 {
		f.gather(r, number, growth, fields, zeros)
	}
	for _, column := range r.Gone {
		f.remove(column)
	}
}

// Choose replaces the columns that are 0 if absent.
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

// gather gathers the numeric values of an event.
func (f *Gatherer) gather(r *scaling.Read, number uint64, growth float64, fields []event.Field, zeros []uint32) {
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
		f.parts[i] = model.Filled
	}
	held, at := 0, 0
	for _, column := range zeros {
		for at < n && f.Columns[at] < column {
			at++
		}
		if at < n && f.Columns[at] == column {
			f.x[at], f.parts[at] = 0, model.Observed
			held++
		}
	}
	held += f.take(r.Values)
	held += f.take(r.Spread)
	if held == 0 || f.passesOver(number, n-held) {
		return
	}
	if f.due || f.Covariance == nil || renewsAt(f.Gathered, n) {
		f.renew()
	}
	keep := min(1-1.0/covarianceMemory, f.growth/growth)
	f.growth = growth
	if f.unit /= keep; f.unit > maxUnit {
		f.scale(1 / f.unit)
	}
	f.Gathered++
	if held < n {
		if f.Covariance == nil || len(f.Covariance.Columns) != n {
			return
		}
		fill := f.Covariance.Fill(f.parts)
		fill.Expect(f.x)
		f.residual = slices.Grow(f.residual[:0], n*n)[:n*n]
		clear(f.residual)
		fill.AddResidual(f.unit, f.residual)
		for i := range n {
			if f.parts[i] != model.Filled {
				continue
			}
			for j := range i + 1 {
				f.squares[i*n+j] += f.residual[i*n+j]
			}
		}
	}
	was := f.weight
	f.weight += f.unit
	for i, m := range f.mean {
		f.x[i] -= m
		f.mean[i] += f.unit / f.weight * f.x[i]
	}
	blas64.Syr(f.unit*was/f.weight, blas64.Vector{N: n, Data: f.x, Inc: 1}, blas64.Symmetric{Uplo: blas.Lower, N: n, Data: f.squares, Stride: n})
}

// take records the values of columns, and returns the number of columns that have become known.
func (f *Gatherer) take(values []scaling.Value) (more int) {
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
		if model.IsWild(v.X) {
			f.parts[at] = model.Filled
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

// renewsAt reports whether the Covariance is computed again after so many gathered events: at each quarter of a power
// of two, or each half for many columns.
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

// renew computes the Covariance in force.
func (f *Gatherer) renew() {
	n := len(f.Columns)
	f.due = false
	mean, matrix := slices.Clone(f.mean), make([]float64, n*n)
	// Correlations shrink as if uncorrelated events had been added.
	certain := f.weight / (f.weight + covarianceRidge*float64(n)*f.unit)
	for i := range n {
		for j := range i + 1 {
			x := f.squares[i*n+j] / f.weight
			if i != j {
				x *= certain
			}
			matrix[i*n+j], matrix[j*n+i] = x, x
		}
	}
	if c, err := model.NewCovariance(slices.Clone(f.Columns), slices.Clone(f.fields), mean, matrix); err == nil {
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
	f.weight *= keep
	for i := range f.squares {
		f.squares[i] *= keep
	}
}

// insert adds a column as if it had been in one event, with deviation 1.
func (f *Gatherer) insert(at int, column uint32, field uint16) {
	n := len(f.Columns)
	if n == 0 {
		f.weight, f.unit, f.growth = 1, 1, 1
	}
	f.Columns, f.fields, f.mean = slices.Insert(f.Columns, at, column), slices.Insert(f.fields, at, field), slices.Insert(f.mean, at, 0)
	squares := make([]float64, (n+1)*(n+1))
	for i := range n {
		for j := range i + 1 {
			to, from := i, j
			if i >= at {
				to++
			}
			if j >= at {
				from++
			}
			squares[to*(n+1)+from] = f.squares[i*n+j]
		}
	}
	squares[at*(n+1)+at] = f.weight
	f.squares, f.due = squares, true
}

// remove removes a column.
func (f *Gatherer) remove(column uint32) {
	at, known := slices.BinarySearch(f.Columns, column)
	if !known {
		return
	}
	n := len(f.Columns)
	f.Columns, f.fields, f.mean = slices.Delete(f.Columns, at, at+1), slices.Delete(f.fields, at, at+1), slices.Delete(f.mean, at, at+1)
	squares := make([]float64, 0, (n-1)*(n-1))
	for i := range n {
		for j := range n {
			if i != at && j != at {
				squares = append(squares, f.squares[i*n+j])
			}
		}
	}
	f.squares, f.due = squares, true
	if len(f.Columns) < 2 {
		f.Covariance = nil
	}
}

// moved adapts the sums to a change of a column's scale: a value z becomes (z - shift)/ratio.
func (f *Gatherer) moved(column uint32, was, is model.Standardization) {
	at, known := slices.BinarySearch(f.Columns, column)
	if !known {
		return
	}
	if was.Unit != is.Unit || was.Scale == 0 || is.Scale == 0 { // the values have another meaning
		f.mean[at] = 0
		f.each(at, func(x *float64, own bool) {
			if *x = 0; own {
				*x = f.weight
			}
		})
		f.due = true
		return
	}
	ratio, shift := is.Scale/was.Scale, (is.Center-was.Center)/was.Scale
	f.mean[at] = (f.mean[at] - shift) / ratio
	f.each(at, func(x *float64, own bool) {
		if *x /= ratio; own {
			*x /= ratio
		}
	})
	f.due = f.due || math.Abs(shift) > movedFar || math.Abs(math.Log(ratio)) > movedFar
}

// each calls do with the entries of a column's row of squares; own marks the diagonal.
func (f *Gatherer) each(at int, do func(x *float64, own bool)) {
	n := len(f.Columns)
	for j := range n {
		do(&f.squares[max(at, j)*n+min(at, j)], j == at)
	}
}

// State codes the state, except for the Covariance in force.
func (f *Gatherer) State(c *coder.Coder) {
	c.Uint32s(&f.Columns)
	c.Uint16s(&f.fields)
	c.Uint(&f.Gathered)
	c.Float(&f.weight)
	c.Float(&f.unit)
	c.Float(&f.growth)
	c.Floats(&f.mean)
	n := len(f.Columns)
	var triangle []float64
	for i := range n {
		if !c.Decode {
			triangle = append(triangle, f.squares[i*n:i*n+i+1]...)
		}
	}
	c.Floats(&triangle)
	if c.Decode {
		if len(triangle) != n*(n+1)/2 || n > model.MaxCovariance || len(f.fields) != n || len(f.mean) != n || !slices.IsSorted(f.Columns) {
			c.Failed = true
			return
		}
		f.squares = make([]float64, n*n)
		for i := range n {
			triangle = triangle[copy(f.squares[i*n:i*n+i+1], triangle):]
		}
	}
	due := uint64(0)
	if f.due {
		due = 1
	}
	c.Uint(&due)
	f.due = due != 0
	c.Failed = c.Failed || due > 1
}
