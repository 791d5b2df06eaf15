// Package share lets several learners learn one model, which is the fold of what each has learned in
// intervals. It weighs the steps of one of them and cuts a Delta from its rows (Interval), reads and
// writes Deltas, and merges their statistics into those of the fold. It changes no weight.
package share

import (
	"math"
	"slices"

	"blankout/internal/model"
	"blankout/online/rows"
	"blankout/online/scaling"
)

// Interval is what a learner knows that is one of several which together learn one model,
// the fold of their deltas. Learning is cut into intervals. An interval begins where the
// Learner equals the fold, and ends with a Delta.
//
// Let n_i be how many of the fold's t events had column i, and G_i AdaGrad's sum of it then.
// e is how many events the Learner is to learn in an interval, R what all learn in that time,
// divided by e. Alone, it would within an interval settle a column by about
//
//	a_i = 2 eta (sqrt(start + G_i (1 + e/t)) - sqrt(start + G_i)).
//
// What column i learns from an event stands for the events that others learn meanwhile:
// it counts
//
//	c_i = 1 + (R-1) min(1, e n_i/t) / (1 + lambda m a_i)
//
// times in a step of the rule (see package rules), m being the features of an event: a column that
// every learner meets in an interval counts up to R times, one that is rare once. With
// several outputs c_i is at most sharedMost. The weights change by u_i in an interval, of which the share
//
//	alpha_i = k_i/(k_i + (R-1) e n_i/t)
//
// goes into the Delta, k_i being the events of the interval that held the column: the
// mean over all learners where all have met it, the whole where no one else is likely to
// have. A mean of learners none of which steps too far does not step too far; a sum may.
// The change of G goes into it divided by c_i. R = 1 gives c = alpha = 1.
//
// Under a half-life of H events G fades between intervals, with the fold's events. It then
// sums at most H/ln 2 of them, which stands for t in a_i.
//
// The levels of a bank share one c_i, found from the mean of their a_i.
type Interval struct {
	Settings
	peers float64 // R
	own   float64 // e

	Alone      bool // R = 1: rows are handed on as they are
	everything bool // all rows have been written

	// The columns of the interval, in the order in which they were met first, and by
	// place what they then were. A place is one more where 0 is none.
	begun    uint64   // t: the learner's own events, then
	places   []uint32 // by slot
	slots    []uint32
	columns  []uint32
	refs     []float64 // rows
	roots    []float64 // sqrt(c)
	centered []bool    // the statistics are moments
	Bias     []float64 // the intercepts
	root     float64   // of them

	Compared uint64 // comparisons of averages

	// About the event at hand.
	at       []uint32  // places of its rows, less one
	stepRoot []float64 // sqrt(c) of its rows, the intercepts' last
}

// Settings are those of AdaGrad.
type Settings struct {
	rows.Layout
	Eta, Start float64
	HalfLife   float64 // in events, 0 for none
}

const (
	shareLambda = 0.3
	sharedMost  = 2
)

// Begin begins an interval of a learner that has had so many events and now equals the fold: peers
// learn at the same time, and own events are to be its own. bias is the intercepts' row.
func (sh *Interval) Begin(s Settings, peers int, own, events uint64, bias []float64, growth float64) {
	for _, slot := range sh.slots {
		sh.places[slot] = 0
	}
	sh.slots, sh.columns, sh.refs, sh.roots, sh.centered = sh.slots[:0], sh.columns[:0], sh.refs[:0], sh.roots[:0], sh.centered[:0]
	sh.Settings, sh.peers, sh.own, sh.Alone, sh.everything = s, float64(peers), float64(own), peers == 1, false
	if sh.begun = events; sh.Alone {
		return
	}
	sh.Bias = append(sh.Bias[:0], bias...)
	sh.root = math.Sqrt(sh.importance(bias, float64(events), 1, growth))
}

// importance is c of a row in an interval's beginning, which n of t events held.
func (sh *Interval) importance(row []float64, n float64, features int, growth float64) float64 {
	t := float64(sh.begun)
	if sh.peers == 1 || t == 0 || n == 0 {
		return 1
	}
	a, reach := 0.0, t // how many events G is of
	if h := sh.HalfLife; h > 0 {
		reach = min(t, h/math.Ln2)
	}
	for _, g := range sh.Preconditioner(row) {
		g /= growth
		a += math.Sqrt(sh.Start+g*(1+sh.own/reach)) - math.Sqrt(sh.Start+g)
	}
	a *= 2 * sh.Eta / float64(sh.N)
	c := 1 + (sh.peers-1)*min(1, sh.own*n/t)/(1+shareLambda*float64(features)*a)
	if sh.Outputs > 1 {
		c = min(c, sharedMost)
	}
	return c
}

// Note takes down the rows of columns of a table before the event at hand changes them. growth is that
// of the half-life, see schedule.Fade.
func (sh *Interval) Note(table *model.Table, columns []uint32, rows [][]float64, growth float64) {
	sh.at = table.Slots(columns, sh.at[:0])
	for len(sh.places) < table.Len() {
		sh.places = append(sh.places, 0)
	}
	for i, slot := range sh.at {
		place := sh.places[slot]
		if place == 0 {
			sh.slots, sh.columns = append(sh.slots, slot), append(sh.columns, columns[i])
			place = uint32(len(sh.slots))
			sh.places[slot] = place
			if !sh.Alone {
				sh.refs = append(sh.refs, rows[i]...)
				sh.roots = append(sh.roots, math.Sqrt(sh.importance(rows[i], rows[i][model.StatCount], len(rows), growth)))
				sh.centered = append(sh.centered, false)
			}
		}
		sh.at[i] = place - 1
	}
}

// NoteOne takes down a row that is no part of the event at hand.
func (sh *Interval) NoteOne(table *model.Table, column uint32, row []float64, growth float64) {
	at := sh.at
	sh.at = nil
	sh.Note(table, []uint32{column}, [][]float64{row}, growth)
	sh.at = at
}

// Wrote says that all rows are being written.
func (sh *Interval) Wrote() { sh.everything = true }

// Columns returns those that have been taken down, none of a nil Interval.
func (sh *Interval) Columns() []uint32 {
	if sh == nil {
		return nil
	}
	return sh.columns
}

// ref returns the row of feature i of the event at hand as it was when the interval began.
func (sh *Interval) ref(i, width int) []float64 {
	return sh.refs[int(sh.at[i])*width:][:width]
}

// Treat is how feature i of the event at hand is treated among others. The
// scale of a column that is only divided grows with its values, and is not looked at again.
func (sh *Interval) Treat(i int, t scaling.Treatment, row []float64) scaling.Treatment {
	switch t {
	case scaling.Numeric:
		sh.centered[sh.at[i]] = true
		if sh.ref(i, len(row))[model.StatCount] > 0 {
			return scaling.Gathered
		}
	case scaling.Divided:
		model.Unwatch(row[:model.ScalerWidth])
	}
	return t
}

// Weigh gives the step at hand the roots of c.
func (sh *Interval) Weigh(s *rows.Step) {
	sh.stepRoot = sh.stepRoot[:0]
	for _, place := range sh.at {
		sh.stepRoot = append(sh.stepRoot, sh.roots[place])
	}
	if s.Intercepts {
		sh.stepRoot = append(sh.stepRoot, sh.root)
	}
	s.Roots = sh.stepRoot
}

// Cut returns what the interval has learned in a table of rows, of changes or as they are: a Delta
// without the State. What it leaves out of the changes, because it is averaged away or rounded, stays in
// the weights. events is how many the learner has had.
func (sh *Interval) Cut(table *model.Table, events uint64, precision int, growth float64) *Delta {
	if sh.Alone {
		return sh.cutFull(table, events)
	}
	d := &Delta{Kind: Shared, Precision: precision, Events: events - sh.begun, Width: Parts + 2*sh.N}
	order := make([]int, len(sh.columns))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return int(int64(sh.columns[a]) - int64(sh.columns[b])) })
	width := table.Width()
	d.Columns, d.Values = make([]uint32, 0, len(order)), make([]float64, 0, len(order)*d.Width)
	for _, place := range order {
		column := sh.columns[place]
		ref := sh.refs[place*width:][:width]
		_, row := table.Column(int(sh.slots[place]))
		at := len(d.Values)
		d.Columns, d.Values = append(d.Columns, column), slices.Grow(d.Values, d.Width)[:at+d.Width]
		v := d.Values[at:]
		clear(v)
		cutStatistics(v, ref, row, sh.centered[place])
		alpha := 1.0
		if sh.begun > 0 {
			others := (sh.peers - 1) * sh.own * ref[model.StatCount] / float64(sh.begun)
			alpha = v[Count] / (v[Count] + others)
		}
		sh.cutChanges(v[Parts:], ref, row, alpha, sh.roots[place], growth)
	}
	if precision == 32 {
		d.round()
	}
	return d
}

// CutBias returns the changes of the intercepts' row in an interval of so many events.
func (sh *Interval) CutBias(bias []float64, events uint64, growth float64) []float64 {
	out, alpha := make([]float64, 2*sh.N), 1.0
	if n := float64(events); n > 0 {
		alpha = n / (n + (sh.peers-1)*sh.own)
	}
	sh.cutChanges(out, sh.Bias, bias, alpha, sh.root, growth)
	return out
}

func (sh *Interval) cutFull(table *model.Table, events uint64) *Delta {
	d := &Delta{Kind: Full, Precision: 64, Width: table.Width(), Events: events - sh.begun}
	columns := sh.columns
	if sh.everything {
		columns = nil
		for slot := range table.Len() {
			column, _ := table.Column(slot)
			columns = append(columns, column)
		}
	}
	d.Columns, d.Values = slices.Clone(columns), make([]float64, 0, len(columns)*d.Width)
	for _, column := range columns {
		d.Values = append(d.Values, table.Row(column)...)
	}
	return d
}

// cutStatistics writes what the interval has added to statistics.
func cutStatistics(v, ref, row []float64, centered bool) {
	n0, n := ref[model.StatCount], row[model.StatCount]
	added := n - n0
	v[Count] = added
	bits := 0
	if centered && added > 0 {
		bits |= hasMoments
		if v[mean], v[squares] = row[model.StatMean], row[model.StatSquares]; n0 > 0 {
			// The other way round of merging.
			d := (row[model.StatMean] - ref[model.StatMean]) * n / added
			v[mean] = ref[model.StatMean] + d
			v[squares] = max(0, row[model.StatSquares]-ref[model.StatSquares]-d*d*n0*added/n)
		}
	}
	if c, s := row[model.StatCenter], row[model.StatInverse]; centered || c != ref[model.StatCenter] || s != ref[model.StatInverse] {
		if v[center], v[inverse] = c, s; c == 0 && s == 1 {
			bits |= isAsIs
		} else {
			bits |= hasForce
		}
	}
	v[flags] = float64(bits)
}

// cutChanges writes the u and ΔG of a row to out, the latter in units that do not fade. A
// reference is in the units of now.
func (sh *Interval) cutChanges(out, ref, row []float64, alpha, root, growth float64) {
	w, g := sh.Weights(row), sh.Preconditioner(row)
	was, wasG := sh.Weights(ref), sh.Preconditioner(ref)
	ratio := 1.0
	if here, there := row[model.StatInverse], ref[model.StatInverse]; here > 0 && there > 0 {
		ratio = there / here // the column's scale has grown within the interval
	}
	for j := range w {
		out[j] = alpha * (w[j] - was[j]*ratio)
		out[sh.N+j] = max(0, (g[j]-wasG[j]/(ratio*ratio))/(root*root)/growth)
	}
}
