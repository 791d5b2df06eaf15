// Package deltas lets several learners in a group learn one model. The model merges what each learner has learned in
// intervals. An Interval weighs the steps of a learner and cuts a Delta from its rows. The package also encodes and
// decodes Deltas, and merges their statistics. It changes no weights.
package deltas

import (
	"math"
	"slices"

	"blankout/internal/model"
	"blankout/online/rows"
	"blankout/online/scaling"
)

// Interval is the state of a learner in a group during an interval. An interval starts when the Learner equals the
// merged model, and ends with a Delta.
//
// At the start, let t be the number of the merged model's events, n_i the number of these events with column i, and G_i
// the accumulator of AdaGrad for column i. In the interval the Learner learns e events, and all learners together learn
// R e events. Alone, the Learner would change the weight of a column within an interval by about
//
//	a_i = 2 eta (sqrt(start + G_i (1 + e/t)) - sqrt(start + G_i)).
//
// An event that the Learner learns represents the events that the other learners learn in the meantime. In a step of
// the optimizer (see package optimizers) the event therefore counts for column i
//
//	c_i = 1 + (R-1) min(1, e n_i/t) / (1 + lambda m a_i)
//
// times, where m is the number of the event's features. For a column that every learner sees in an interval, c_i is up
// to R, and for a rare column it is about 1. If there are several outputs, c_i is at most mostImportance. The weights
// change by u_i in an interval. The Delta contains the fraction
//
//	alpha_i = k_i/(k_i + (R-1) e n_i/t)
//
// of this change, where k_i is the number of the interval's events with the column. If all learners have seen the
// column, adding these fractions gives the mean of their changes. If probably no other learner has seen the column,
// alpha_i is 1. The mean is used because the sum of steps that are not too long may be too long. The change of G is
// divided by c_i in the Delta. R = 1 gives c = alpha = 1.
//
// If there is a half-life of H events, G decays between intervals, by the merged model's events. G then covers at most
// H/ln 2 events, and this number replaces t in a_i.
//
// All noise levels use the same c_i, which is computed from the mean of their a_i.
type Interval struct {
	Settings
	peers float64 // R, the number of learners
	own   float64 // e, the planned number of events

	Alone      bool // R = 1: rows are copied unchanged
	everything bool // all rows have changed

	// The columns of the interval, in the order in which they were first seen, and copies of their rows at that time.
	// An index is stored plus one where 0 means no index.
	begun    uint64   // t: number of the learner's events at the start
	places   []uint32 // index in refs plus one, by slot
	slots    []uint32
	columns  []uint32
	refs     []float64 // copies of the rows
	roots    []float64 // sqrt(c) of each row
	centered []bool    // whether each row has moments
	Bias     []float64 // row of the intercepts at the start
	root     float64   // sqrt(c) of the intercepts

	Compared uint64 // number of comparisons of averages with iterates

	// For the current event:
	at       []uint32  // index of each of its rows
	stepRoot []float64 // sqrt(c) of its rows; the intercepts are last
}

// Settings are the settings of AdaGrad that an Interval needs.
type Settings struct {
	rows.Layout
	Eta, Start float64
	HalfLife   float64 // half-life in events, 0 for none
}

const (
	lambda         = 0.3
	mostImportance = 2
)

// Begin starts an interval. The learner equals the merged model and has had the given number of events. peers is the
// number of learners in the group, and own is the planned number of this learner's events. bias is the row of the
// intercepts.
func (sh *Interval) Begin(s Settings, peers int, own, events uint64, bias []float64, inverseDecay float64) {
	for _, slot := range sh.slots {
		sh.places[slot] = 0
	}
	sh.slots, sh.columns, sh.refs, sh.roots, sh.centered = sh.slots[:0], sh.columns[:0], sh.refs[:0], sh.roots[:0], sh.centered[:0]
	sh.Settings, sh.peers, sh.own, sh.Alone, sh.everything = s, float64(peers), float64(own), peers == 1, false
	if sh.begun = events; sh.Alone {
		return
	}
	sh.Bias = append(sh.Bias[:0], bias...)
	sh.root = math.Sqrt(sh.importance(bias, float64(events), 1, inverseDecay))
}

// importance returns c of a row at the start of the interval. n is how many of the first t events had the row's column.
func (sh *Interval) importance(row []float64, n float64, features int, inverseDecay float64) float64 {
	t := float64(sh.begun)
	if sh.peers == 1 || t == 0 || n == 0 {
		return 1
	}
	a, reach := 0.0, t // reach is the number of events that G covers
	if h := sh.HalfLife; h > 0 {
		reach = min(t, h/math.Ln2)
	}
	for _, g := range sh.Accumulators(row) {
		g /= inverseDecay
		a += math.Sqrt(sh.Start+g*(1+sh.own/reach)) - math.Sqrt(sh.Start+g)
	}
	a *= 2 * sh.Eta / float64(sh.N)
	c := 1 + (sh.peers-1)*min(1, sh.own*n/t)/(1+lambda*float64(features)*a)
	if sh.Outputs > 1 {
		c = min(c, mostImportance)
	}
	return c
}

// Note records the rows of a table's columns before the current event changes them. inverseDecay is the inverse decay
// factor of the accumulators, see levels.Expert.
func (sh *Interval) Note(table *model.Table, columns []uint32, rows [][]float64, inverseDecay float64) {
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
				sh.roots = append(sh.roots, math.Sqrt(sh.importance(rows[i], rows[i][model.StatCount], len(rows), inverseDecay)))
				sh.centered = append(sh.centered, false)
			}
		}
		sh.at[i] = place - 1
	}
}

// NoteOne records a row of a column that is not in the current event.
func (sh *Interval) NoteOne(table *model.Table, column uint32, row []float64, inverseDecay float64) {
	at := sh.at
	sh.at = nil
	sh.Note(table, []uint32{column}, [][]float64{row}, inverseDecay)
	sh.at = at
}

// Wrote records that all rows have changed.
func (sh *Interval) Wrote() { sh.everything = true }

// Columns returns the columns whose rows have been recorded. It returns nil for a nil Interval.
func (sh *Interval) Columns() []uint32 {
	if sh == nil {
		return nil
	}
	return sh.columns
}

// ref returns the recorded row of feature i of the current event, as it was at the start of the interval.
func (sh *Interval) ref(i, width int) []float64 {
	return sh.refs[int(sh.at[i])*width:][:width]
}

// Treat returns how feature i of the current event is scaled in a group. A column that is only divided by its scale is
// no longer reviewed: its scale grows with its values.
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

// Weigh sets the square roots of c for the rows of the current step.
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

// Cut returns what the interval has learned as a Delta without State: changes or whole rows. The Delta omits some of
// the changes by averaging or rounding, but the weights keep these changes. events is the number of the learner's
// events.
func (sh *Interval) Cut(table *model.Table, events uint64, precision int, inverseDecay float64) *Delta {
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
		sh.cutChanges(v[Parts:], ref, row, alpha, sh.roots[place], inverseDecay)
	}
	if precision == 32 {
		d.round()
	}
	return d
}

// CutBias returns the changes of the row of the intercepts in an interval with the given number of events.
func (sh *Interval) CutBias(bias []float64, events uint64, inverseDecay float64) []float64 {
	out, alpha := make([]float64, 2*sh.N), 1.0
	if n := float64(events); n > 0 {
		alpha = n / (n + (sh.peers-1)*sh.own)
	}
	sh.cutChanges(out, sh.Bias, bias, alpha, sh.root, inverseDecay)
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

// cutStatistics writes to v what the interval has added to the statistics of a row.
func cutStatistics(v, ref, row []float64, centered bool) {
	n0, n := ref[model.StatCount], row[model.StatCount]
	added := n - n0
	v[Count] = added
	bits := 0
	if centered && added > 0 {
		bits |= hasMoments
		if v[mean], v[squares] = row[model.StatMean], row[model.StatSquares]; n0 > 0 {
			// This computation is the inverse of merging moments.
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

// cutChanges writes the weight changes u and the accumulator changes ΔG of a row to out. ΔG is in units that do not
// decay. ref is the row at the start of the interval, in the row's current units.
func (sh *Interval) cutChanges(out, ref, row []float64, alpha, root, inverseDecay float64) {
	w, g := sh.Weights(row), sh.Accumulators(row)
	was, wasG := sh.Weights(ref), sh.Accumulators(ref)
	ratio := 1.0
	if here, there := row[model.StatInverse], ref[model.StatInverse]; here > 0 && there > 0 {
		ratio = there / here // the column's scale grew within the interval
	}
	for j := range w {
		out[j] = alpha * (w[j] - was[j]*ratio)
		out[sh.N+j] = max(0, (g[j]-wasG[j]/(ratio*ratio))/(root*root)/inverseDecay)
	}
}
