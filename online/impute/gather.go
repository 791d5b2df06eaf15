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

// Gatherer gathers how numbers go together. It keeps, of the first numeric columns as a score takes them, the weighted mean and
// the sums of products of the deviations from it. The Covariance in force is made of
// these now and then, so that what is worked out for a pattern of missing columns can be
// kept. Everything is counted in events, and nothing depends on what is kept.
//
// A value that is null, left out or wild counts with what the Covariance in force expects
// of it given the others, and with the variance of that. Later events
// weigh more: the sums remember covarianceMemory gathered events, or what the
// half-life leaves, and an alarm that makes the learner forget leaves a tenth of them.
type Gatherer struct {
	most     int      // columns
	Columns  []uint32 // ascending
	fields   []uint16 // see model.Covariance
	Gathered uint64   // events
	weight   float64  // of all of them
	unit     float64  // of the next one
	growth   float64  // of fade at the last one
	mean     []float64
	squares  []float64 // weighted sums of products of deviations, the lower triangle row by row
	due      bool      // a column has come, gone or moved far: the next event renews

	Covariance *model.Covariance // in force, nil before there are two columns

	// About the event at hand.
	x        []float64
	parts    model.Parts
	residual []float64
}

// New returns one of at most so many columns.
func NewGatherer(most int) Gatherer { return Gatherer{most: most} }

const (
	// covarianceMemory bounds the gathered events that are remembered.
	covarianceMemory = 16_384
	// One event in gatherLeast is gathered until there are gatherFirst times as many as columns,
	// and later where columns are few; else one in as many as there are columns over gatherColumns.
	gatherLeast, gatherFirst, gatherColumns = 4, 8, 8
	// An event that lacks columns costs far more: one that lacks k of them is gathered at every
	// (k^2/gatherLacking)-th event at most, and until there are gatherFirst times as many
	// events as columns at every (k^2/gatherLackingFirst)-th.
	gatherLacking, gatherLackingFirst = 80, 640
	// movedFar is by how much the center or scale of a column may move, in its deviations,
	// before the Covariance in force no longer fits it.
	movedFar = 0.1
	// covarianceRidge is how many events without any covariance are added for each column:
	// of few events it is not known.
	covarianceRidge = 0.1
	// maxUnit is how large the unit may become before everything is divided by it.
	maxUnit = 1e100
)

// Every returns every how many events one is gathered: its products grow with the
// square of the columns, the update with their number.
func (f *Gatherer) Every() uint64 {
	n := uint64(len(f.Columns))
	if f.Gathered < gatherFirst*n {
		return gatherLeast
	}
	return max(gatherLeast, n/gatherColumns)
}

// passesOver says whether to skip the event of the given number, which would be gathered but lacks
// columns: the covariance of what it lacks takes time that grows with their square and with the others.
func (f *Gatherer) passesOver(number uint64, lacks int) bool {
	spare := gatherLacking
	if f.Gathered < gatherFirst*uint64(len(f.Columns)) {
		spare = gatherLackingFirst
	}
	every := f.Every()
	return number/every%max(1, uint64(lacks*lacks/spare)/every) != 0
}

// Follow takes up what is read of the event of the given number, of fields: its values if gathers says
// so. growth is that of the half-life, see schedule.Fade; zeros are the columns that are 0 where the event leaves them out.
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

// Choose puts the columns that are 0 where they are left out in place of those that were.
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

// gather takes up the numeric values of an event.
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

// take takes the values of columns, and returns of how many more one is known.
func (f *Gatherer) take(values []scaling.Value) (more int) {
	next := 0
	for _, v := range values {
		at := next
		if at == len(f.Columns) || f.Columns[at] != v.Column { // most events hold their columns in order
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

// renewsAt says whether the Covariance of n columns is renewed after so many gathered
// events: at every quarter of a power of two, or every half where there are many columns.
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

// renew puts a Covariance of what has been gathered in force.
func (f *Gatherer) renew() {
	n := len(f.Columns)
	f.due = false
	mean, matrix := slices.Clone(f.mean), make([]float64, n*n)
	// Covariances shrink as if events without any had been added.
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

// Forget leaves a share of what has been gathered.
func (f *Gatherer) Forget(keep float64) {
	f.weight *= keep
	for i := range f.squares {
		f.squares[i] *= keep
	}
}

// insert gives a column its place: as if it had been met in one event, with the
// deviation 1 that standardized values have.
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

// remove takes a column out.
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

// moved takes up that what is in force of a column's statistics is no longer what it was:
// a value z is now (z - shift)/ratio.
func (f *Gatherer) moved(column uint32, was, is model.Standardization) {
	at, known := slices.BinarySearch(f.Columns, column)
	if !known {
		return
	}
	if was.Unit != is.Unit || was.Scale == 0 || is.Scale == 0 { // other values than before
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

// each calls do with the entries of a column's row, and says which is the column's own.
func (f *Gatherer) each(at int, do func(x *float64, own bool)) {
	n := len(f.Columns)
	for j := range n {
		do(&f.squares[max(at, j)*n+min(at, j)], j == at)
	}
}

// Empty says whether there is nothing to keep.
func (f *Gatherer) Empty() bool { return len(f.Columns) == 0 }

// State codes the state, but for the Covariance in force.
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
