package online

// This file observes and standardizes the features of an event, and moves
// weights along.

import (
	"math"
	"slices"

	"blankout/internal/event"
	"blankout/internal/model"
	"blankout/online/rows"
	"blankout/online/scaling"
)

// gatherStandardized is gather's loop over the features where a Scaler is on.
func (l *bank) gatherStandardized(e *event.Example) {
	now := &l.now
	shared := l.shared()
	if !shared && l.scaling.Bend(e, l.table.Len()) {
		l.bindCurves()
	}
	columns, raw, numbers := l.scaling.Columns(e.Features)
	dense, spreads := l.scaling.Scaler.Dense, l.scaling.SpreadColumns()
	l.touch(columns)
	// Once it is settled which columns are dense, all but the numeric ones are
	// only divided by a number that seldom changes.
	decided := l.scaling.Settled() || shared
	settled := l.scaling.Scaler.Mode == model.StandardizeScale || l.scaling.Scaler.Mode == model.StandardizeAuto && decided
	read := &l.scaling.Read
	kind, field, stored := l.scaling.Kinds[0], uint16(0), 0
	steady := e.Field != nil && len(dense) == 0 && l.scaling.Scaler.Mode == model.StandardizeAuto && !shared
	for i := 0; i < numbers; i++ {
		if steady {
			if i = l.putSteady(i, e, raw); i == numbers {
				break
			}
			stored = i
		}
		for len(dense) > 0 && dense[0] < columns[i] {
			dense = dense[1:] // left out, and not filled in
		}
		isDense := len(dense) > 0 && dense[0] == columns[i]
		if isDense {
			dense = dense[1:]
		}
		for len(spreads) > 0 && spreads[0] < columns[i] {
			spreads = spreads[1:]
		}
		isSpread := len(spreads) > 0 && spreads[0] == columns[i]
		if e.Field != nil && stored < len(e.Features.Index) && e.Features.Index[stored] == columns[i] {
			field = e.Field[stored]
			kind = l.scaling.Kinds[field]
			stored++
		}
		if settled && !isDense && !isSpread && (kind != event.Numeric || l.scaling.Scaler.Mode == model.StandardizeScale) {
			end := i + 1
			if e.Field == nil {
				end = numbers
				for _, next := range [2][]uint32{dense, spreads} {
					if len(next) > 0 {
						at, _ := slices.BinarySearch(columns[:end], next[0])
						end = at
					}
				}
			}
			if i = l.putDivided(i, end, raw); i == end {
				i--
				continue
			}
		}
		row := now.step.Rows[i]
		t := l.scaling.Treat(kind, isDense, isSpread, decided)
		if shared {
			t = l.share.Treat(i, t, row)
		}
		x := l.observed(row, columns[i], raw[i], t, field)
		l.put(i, row, x)
		if read.Notes && t == scaling.Numeric {
			read.Note(columns[i], kind, field, x, raw[i])
		} else if read.Notes && isSpread && l.scaling.Scaler.Unfilled {
			read.NoteSpread(columns[i], x, raw[i])
		}
	}
	for i := numbers; i < len(columns); i++ {
		stats := now.step.Rows[i][:model.ScalerWidth]
		stats[model.StatCount]++
		stats[model.StatInverse] = 1
		l.put(i, now.step.Rows[i], raw[i])
	}
	now.columns = columns
	l.arrange(e, columns)
	l.sum(0)
	if shared {
		l.scaling.Events++
	} else if l.scaling.Count(e.Features) {
		read.Gone = append(read.Gone, l.scaling.Review(l.noteOne, l.move)...) // may move more weights
	}
	if now.hasMoved {
		l.addMoved(l.bias, 1, -1)
	}
}

// gatherUnlabeled is gatherStandardized for an event without label: it observes nothing, so that the event moves no
// scale and no weight. A feature that no labeled event had is 0.
func (l *bank) gatherUnlabeled(e *event.Example) {
	columns, raw, numbers := l.scaling.Columns(e.Features)
	l.touch(columns)
	kind, field, stored := l.scaling.Kinds[0], uint16(0), 0
	for i, row := range l.now.step.Rows {
		stats := row[:model.ScalerWidth]
		if i >= numbers {
			l.put(i, row, raw[i]*stats[model.StatInverse])
			continue
		}
		if e.Field != nil && stored < len(e.Features.Index) && e.Features.Index[stored] == columns[i] {
			field = e.Field[stored]
			kind = l.scaling.Kinds[field]
			stored++
		}
		_, isDense := slices.BinarySearch(l.scaling.Scaler.Dense, columns[i])
		x := 0.0
		if stats[model.StatCount] > 0 {
			x = l.scaling.Scaler.Apply(stats, raw[i])
			if read := &l.scaling.Read; read.Notes && (isDense || kind == event.Numeric) {
				read.Note(columns[i], kind, field, x, raw[i])
			}
		}
		l.put(i, row, x)
	}
	l.now.columns = columns
	l.arrange(e, columns)
	l.sum(0)
}

// putSteady observes and puts the features from i on, of an event with fields, that change no scale: names that
// stand alone, and numbers of columns that scaling.Steady says keep theirs. It returns the first other one.
func (l *bank) putSteady(i int, e *event.Example, raw []float64) int {
	now, kinds, read := &l.now, l.scaling.Kinds, &l.scaling.Read
	plain, bending := l.set.noiseKind == square && l.period == 0, l.scaling.Bending()
	fields := e.Field
	rows, raw, first := now.step.Rows[:len(fields)], raw[:len(fields)], l.set.firstRidge
	xs, basis, ridge := now.step.X[:len(fields)], now.step.Basis[:len(fields)], now.step.Ridge[:len(fields)]
	for ; i < len(fields); i++ {
		stats, kind := (*[model.ScalerWidth]float64)(rows[i]), kinds[fields[i]]
		n, x := stats[model.StatCount]+1, (raw[i]-stats[model.StatCenter])*stats[model.StatInverse]
		if !(x >= -model.ScalerClip && x <= model.ScalerClip) {
			break
		}
		switch kind {
		case event.Numeric:
			if bending || !scaling.Steady(stats, n) {
				return i
			}
			model.AddReading(stats, n, raw[i])
			if read.Notes {
				read.Note(e.Features.Index[i], kind, fields[i], x, raw[i])
			}
		case event.Cross, event.Sparse:
			return i
		default:
			if stats[model.StatInverse] != 1 || stats[model.StatCenter] != 0 {
				return i
			}
			stats[model.StatCount] = n
		}
		if !plain {
			l.put(i, rows[i], x)
			continue
		}
		xs[i], basis[i], ridge[i] = x, x*x, ridgeAt(first, n)
	}
	return i
}

// ridgeAt returns the factor of w in the gradient of the ridge at the n-th event of a feature; first is that at
// its first. Most learners have none, and no quotient to wait for.
func ridgeAt(first, n float64) float64 {
	if first == 0 {
		return 0
	}
	return first / n
}

// putDivided observes and puts the features from i to end whose columns are only
// divided by a number that stays as it is, as scaling.Divided does, and returns the
// first that is another one.
func (l *bank) putDivided(i, end int, raw []float64) int {
	now := &l.now
	// The commonest of noises, in the first pass: see put.
	plain := l.set.noiseKind == square && l.period == 0
	rows, raw, first := now.step.Rows[:end], raw[:end], l.set.firstRidge
	xs, basis, ridge := now.step.X[:end], now.step.Basis[:end], now.step.Ridge[:end]
	for ; i < len(rows); i++ {
		stats := (*[model.ScalerWidth]float64)(rows[i])
		x, n := raw[i]*stats[model.StatInverse], stats[model.StatCount]+1
		if !(stats[model.StatInverse] > 0 && x >= -1 && x <= 1) || model.Watched(stats[:], n) { // a scale that may change
			break
		}
		stats[model.StatCount] = n
		if !plain {
			l.put(i, rows[i], x)
			continue
		}
		xs[i], basis[i], ridge[i] = x, x*x, ridgeAt(first, n)
	}
	return i
}

// observed counts a feature into its column's statistics, moves its weights if that
// has changed what they are measured in, and returns its standardized value.
func (l *bank) observed(row []float64, column uint32, raw float64, t scaling.Treatment, field uint16) float64 {
	stats := row[:model.ScalerWidth:model.ScalerWidth]
	z, center, inverse := l.scaling.Scaler.Deviations(stats, raw), stats[model.StatCenter], stats[model.StatInverse]
	x := l.scaling.Scaler.Clip(stats, z)
	if t == scaling.Numeric && !l.shared() {
		l.scaling.Reading(column, field, raw, z)
	}
	m := l.scaling.Observe(column, stats, raw, z, t, field)
	if m.Keep != 1 {
		l.rule.Forget(row, false, m.Keep)
	}
	if stats[model.StatCenter] != center || stats[model.StatInverse] != inverse { // seldom
		if t == scaling.Numeric || t == scaling.Spread && l.scaling.Scaler.Unfilled {
			l.scaling.Follow(scaling.Moved{Column: column, X: x, Move: m}, center, inverse, stats)
		}
		l.addMoved(row, x, 1)
		if m.Moves() {
			l.move(row, m.Ratio, m.Shift)
		}
		x = l.scaling.Scaler.Apply(stats, raw)
		l.addMoved(row, x, -1)
	}
	return x
}

// addMoved adds sign times a feature's part of the published scores to moved,
// which starts from the intercepts as they were.
func (l *bank) addMoved(row []float64, x, sign float64) {
	if !l.now.hasMoved {
		l.now.hasMoved = true
		clear(l.now.moved)
		l.addMoved(l.bias, 1, 1)
	}
	if x == 0 {
		return
	}
	w, u := l.weights(row), l.lags(row)
	for v := range l.levels {
		c := l.levels[v].LagShare()
		for j := v * l.k; j < (v+1)*l.k; j++ {
			l.now.moved[j] += sign * x * (w[j] + c*u[j])
		}
	}
}

// move rewrites a feature's weights for a new center and scale so that no score
// changes: w *= ratio, and the intercept takes up w shift. A gradient by w
// shrinks as w grows, so a metric that sums its squares goes with 1/ratio^2.
//
// It leaves them as they are where that would extrapolate too far: where an
// intercept, which all events share, or the score of a reading one deviation from
// the center would change by more than maxMove.
func (l *bank) move(row []float64, ratio, shift float64) {
	if l.set.intercept && shift != 0 && !l.now.hasMoved {
		l.addMoved(l.bias, 0, 1) // takes note of the intercepts
	}
	for v := range l.levels {
		l.moveLevel(v, row, ratio, shift)
	}
}

// moveLevel is move for a level: whether it moves depends on its own weights, as it
// would alone.
func (l *bank) moveLevel(v int, row []float64, ratio, shift float64) {
	lv, from, to := &l.levels[v], v*l.k, (v+1)*l.k
	w, u := l.weights(row)[from:to], l.lags(row)[from:to]
	most := maxMove / max(math.Abs(shift), ratio-1)
	for k, w := range w {
		if !(math.Abs(w) <= most && math.Abs(w+lv.Coefficient*u[k]) <= most) {
			return
		}
	}
	if l.set.intercept && shift != 0 {
		b, bu := l.weights(l.bias)[from:to], l.lags(l.bias)[from:to]
		for k, w := range w {
			b[k] += w * shift
			bu[k] += u[k] * shift
		}
		l.refresh.Shifted(l.bias, row, from, to, shift)
		l.rule.Shifted(l.bias, row, from, to, shift)
	}
	if l.set.noiseKind == constant {
		for k, w := range w {
			lv.sumsq[k] = max(0, lv.sumsq[k]+w*w*(ratio*ratio-1))
		}
	}
	l.rule.Rescale(row, from, to, ratio)
	l.refresh.Rescale(row, from, to, ratio)
}

const maxMove = 1

// bindCurves has what dies together with a number summed, where that was not needed before
// there were curves.
func (l *bank) bindCurves() {
	if l.groups == nil && l.scaling.Learned() {
		l.groups = rows.NewGroups(model.NewGrouping(l.schema), l.config.learned(l.set.noises), l.k, true)
	}
}
