package online

// This file fills in numbers that an event lacks: it gathers the covariance of the
// numeric columns while learning.

import (
	"math"
	"math/bits"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"

	"blankout"
	"blankout/internal/coder"
	"blankout/model"
)

// filling is what the Learner knows of how numbers go together. It keeps, of the first
// Config.CovarianceFields numeric columns as a score takes them, the weighted mean and
// the sums of products of the deviations from it. The Covariance in force is made of
// these now and then, so that what is worked out for a pattern of missing columns can be
// kept. Everything is counted in events, and nothing depends on what is kept.
//
// A value that is null, left out or wild counts with what the Covariance in force expects
// of it given the others, and with the variance of that. Later events
// weigh more: the sums remember covarianceMemory gathered events, or what the
// half-life leaves, and an alarm that makes the learner forget leaves a tenth of them.
type filling struct {
	columns  []uint32 // ascending
	fields   []uint16 // see model.Covariance
	gathered uint64   // events
	weight   float64  // of all of them
	unit     float64  // of the next one
	growth   float64  // of fade at the last one
	mean     []float64
	squares  []float64 // weighted sums of products of deviations, the lower triangle row by row
	due      bool      // a column has come, gone or moved far: the next event renews

	covariance *model.Covariance // in force, nil before there are two columns

	grouping *model.Grouping
	filled
}

// filled is about the event that is answered: no part of the state.
type filled struct {
	x        []float64
	parts    model.Parts
	residual []float64
	answer   []float64    // scores
	features blankout.Vec // of the event at hand, standardised
}

// numbersRead is what the bank read of an event's numeric columns, in the order in which it
// comes about: of some columns the centre or scale moved; the values, as scores take them;
// columns that ceased to be numeric.
type numbersRead struct {
	// gathers says that the values are wanted for the covariance, second that they are for the
	// second-order expert; follows that moves are.
	gathers, second, follows bool
	moved                    []movedScale
	values                   []readValue
	gone                     []uint32
}

type movedScale struct {
	column  uint32
	was, is model.Standardisation
	x       float64 // the event's value as it was
	// By what the weights have been moved, see bank.move.
	ratio, shift float64
}

// readValue is a numeric value of an event.
type readValue struct {
	column uint32
	field  uint16 // of the event, 0 for a column of a sparse text format
	x      float64
}

func (r *numbersRead) clear() {
	r.moved, r.values, r.gone = r.moved[:0], r.values[:0], r.gone[:0]
}

// note takes down a value.
func (r *numbersRead) note(column uint32, kind blankout.Kind, field uint16, x float64) {
	if kind != blankout.Numeric {
		field = 0
	}
	r.values = append(r.values, readValue{column, field, x})
}

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
	// movedFar is by how much the centre or scale of a column may move, in its deviations,
	// before the Covariance in force no longer fits it.
	movedFar = 0.1
	// covarianceRidge is how many events without any covariance are added for each column:
	// of few events it is not known.
	covarianceRidge = 0.1
	// maxUnit is how large the unit may become before everything is divided by it.
	maxUnit = 1e100
)

// fillsIn says whether the covariance is gathered. Several learners of one model gather
// none.
func (l *answering) fillsIn() bool { return l.set.fills && l.share == nil }

// gatherEvery returns every how many events one is gathered: its products grow with the
// square of the columns, the update with their number.
func (l *answering) gatherEvery() uint64 {
	n := uint64(len(l.filling.columns))
	if l.filling.gathered < gatherFirst*n {
		return gatherLeast
	}
	return max(gatherLeast, n/gatherColumns)
}

// passesOver says whether to skip an event that would be gathered but lacks columns: the
// covariance of what it lacks takes time that grows with their square and with the others.
func (l *answering) passesOver(lacks int) bool {
	spare := gatherLacking
	if l.filling.gathered < gatherFirst*uint64(len(l.filling.columns)) {
		spare = gatherLackingFirst
	}
	every := l.gatherEvery()
	return l.events/every%max(1, uint64(lacks*lacks/spare)/every) != 0
}

// gatherRead takes up what the bank has read.
func (l *answering) gatherRead() {
	read := &l.now.read
	for _, m := range read.moved {
		l.filling.moved(m.column, m.was, m.is)
	}
	if read.gathers && len(read.values) > 0 {
		l.gatherValues(read.values)
	}
	for _, column := range read.gone {
		l.filling.remove(column)
	}
}

// gatherValues takes up the numeric values of an event.
func (l *answering) gatherValues(values []readValue) {
	f := &l.filling
	if len(f.columns) < l.config.CovarianceFields {
		for _, v := range values {
			if at, known := slices.BinarySearch(f.columns, v.column); !known && len(f.columns) < l.config.CovarianceFields {
				f.insert(at, v.column, l.firstOfName(v.field))
			}
		}
	}
	n := len(f.columns)
	if n < 2 {
		return
	}
	f.x, f.parts = slices.Grow(f.x[:0], n)[:n], slices.Grow(f.parts[:0], n)[:n]
	for i := range f.parts {
		f.parts[i] = model.Filled
	}
	held, next := 0, 0
	for _, v := range values {
		at := next
		if at == n || f.columns[at] != v.column { // most events hold their columns in order
			var known bool
			if at, known = slices.BinarySearch(f.columns, v.column); !known {
				continue
			}
		}
		next = at + 1
		if !model.IsWild(v.x) {
			f.x[at], f.parts[at] = v.x, model.Observed
			held++
		}
	}
	if held == 0 || l.passesOver(n-held) {
		return
	}
	if f.due || f.covariance == nil || renewsAt(f.gathered, n) {
		f.renew()
	}
	growth := l.fade.Growth
	keep := min(1-1.0/covarianceMemory, f.growth/growth)
	f.growth = growth
	if f.unit /= keep; f.unit > maxUnit {
		f.scale(1 / f.unit)
	}
	f.gathered++
	if held < n {
		if f.covariance == nil || len(f.covariance.Columns) != n {
			return
		}
		fill := f.covariance.Fill(f.parts)
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
func (f *filling) renew() {
	n := len(f.columns)
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
	if c, err := model.NewCovariance(slices.Clone(f.columns), slices.Clone(f.fields), mean, matrix); err == nil {
		f.covariance = c
	}
}

// scale multiplies all weights.
func (f *filling) scale(by float64) {
	f.unit *= by
	f.forget(by)
}

// forget leaves a share of what has been gathered.
func (f *filling) forget(keep float64) {
	f.weight *= keep
	for i := range f.squares {
		f.squares[i] *= keep
	}
}

// insert gives a column its place: as if it had been met in one event, with the
// deviation 1 that standardised values have.
func (f *filling) insert(at int, column uint32, field uint16) {
	n := len(f.columns)
	if n == 0 {
		f.weight, f.unit, f.growth = 1, 1, 1
	}
	f.columns, f.fields, f.mean = slices.Insert(f.columns, at, column), slices.Insert(f.fields, at, field), slices.Insert(f.mean, at, 0)
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
func (f *filling) remove(column uint32) {
	at, known := slices.BinarySearch(f.columns, column)
	if !known {
		return
	}
	n := len(f.columns)
	f.columns, f.fields, f.mean = slices.Delete(f.columns, at, at+1), slices.Delete(f.fields, at, at+1), slices.Delete(f.mean, at, at+1)
	squares := make([]float64, 0, (n-1)*(n-1))
	for i := range n {
		for j := range n {
			if i != at && j != at {
				squares = append(squares, f.squares[i*n+j])
			}
		}
	}
	f.squares, f.due = squares, true
	if len(f.columns) < 2 {
		f.covariance = nil
	}
}

// moved takes up that what is in force of a column's statistics is no longer what it was:
// a value z is now (z - shift)/ratio.
func (f *filling) moved(column uint32, was, is model.Standardisation) {
	at, known := slices.BinarySearch(f.columns, column)
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
	ratio, shift := is.Scale/was.Scale, (is.Centre-was.Centre)/was.Scale
	f.mean[at] = (f.mean[at] - shift) / ratio
	f.each(at, func(x *float64, own bool) {
		if *x /= ratio; own {
			*x /= ratio
		}
	})
	f.due = f.due || math.Abs(shift) > movedFar || math.Abs(math.Log(ratio)) > movedFar
}

// each calls do with the entries of a column's row, and says which is the column's own.
func (f *filling) each(at int, do func(x *float64, own bool)) {
	n := len(f.columns)
	for j := range n {
		do(&f.squares[max(at, j)*n+min(at, j)], j == at)
	}
}

// firstOfName returns the first field of the name of a field.
func (l *answering) firstOfName(field uint16) uint16 {
	name := l.schema.Fields[field].Name
	return uint16(slices.IndexFunc(l.schema.Fields, func(f blankout.Field) bool { return f.Name == name }))
}

// fillAnswer finds the scores that filling in gives the event at hand, if the model
// answers it so. It comes before anything of the event is learned.
func (l *answering) fillAnswer(e *blankout.Example) {
	now := &l.missing.event
	if l.filling.covariance == nil || l.missing.model.Rules[now.within-1][2] == 0 {
		return
	}
	m := l.modelOf(l.mixed(now.within))
	a := m.Answer(e)
	if a.Parts == nil {
		return
	}
	now.filled = true
	f := &l.filling
	f.features = m.Standardised(e, blankout.Vec{Index: f.features.Index[:0], Value: f.features.Value[:0]})
	f.answer = slices.Grow(f.answer[:0], l.k)[:l.k]
	m.ClassScores(m.AnswerOutputs(f.features, a, f.answer))
}

// empty says whether there is nothing to keep.
func (f *filling) empty() bool { return len(f.columns) == 0 }

// blockFill is the block of the state that this file keeps.
const blockFill = "gathered"

// state walks the block.
func (f *filling) state(c *coder.Coder) {
	c.Uint32s(&f.columns)
	c.Uint16s(&f.fields)
	c.Uint(&f.gathered)
	c.Float(&f.weight)
	c.Float(&f.unit)
	c.Float(&f.growth)
	c.Floats(&f.mean)
	n := len(f.columns)
	var triangle []float64
	for i := range n {
		if !c.Decode {
			triangle = append(triangle, f.squares[i*n:i*n+i+1]...)
		}
	}
	c.Floats(&triangle)
	if c.Decode {
		if len(triangle) != n*(n+1)/2 || n > model.MaxCovariance || len(f.fields) != n || len(f.mean) != n || !slices.IsSorted(f.columns) {
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
