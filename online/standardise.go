package online

// This file observes and standardises the features of an event, and moves
// weights along.

import (
	"math"
	"slices"

	"blankout"
	"blankout/internal/coder"
	"blankout/model"
)

// scaling is what a Learner knows of its columns: the Scaler that is published, and
// what decides which columns are dense and where the statistics of a column begin.
type scaling struct {
	scaler model.Scaler
	dense  denseFinder
	recent recentReadings
	curves curveReadings
	bent   bool // the knots have been looked for
	// By field of the Schema, for the fields met so far.
	kinds      []blankout.Kind
	transforms []model.Transform
	knots      []int // the most of a curve
	// The columns and values of an event that leaves dense columns out, or has hats.
	columns []uint32
	raw     []float64
	hats    blankout.Vec // of the event at hand
}

// treatment is what the Scaler does with a feature of the event at hand.
type treatment int

const (
	treatNothing   treatment = iota // standardise = none: not even clipped
	treatAlone                      // as it is
	treatScale                      // divided by the largest |x|
	treatCandidate                  // the same, while it is open whether the column is dense
	treatNumeric                    // centred and scaled
	treatSpread                     // scaled by its deviation over all events
	treatGathered                   // centred and scaled by what the fold has put in force
)

func (l *bank) treatment(k blankout.Kind, dense bool) treatment {
	switch {
	case l.scaling.scaler.Mode == model.StandardiseScale:
		return treatScale
	case dense || k == blankout.Numeric:
		return treatNumeric
	case l.scaling.scaler.Mode == model.StandardiseAll:
		return treatSpread
	case k == blankout.Cross:
		return treatScale
	case k == blankout.Sparse:
		if l.scaling.dense.events < denseEvents && !l.shared() {
			return treatCandidate
		}
		return treatScale
	}
	return treatAlone
}

// observe counts a feature, which is z deviations from its column's centre, into the
// column's statistics. The weights must then
// move by ratio and shift for no score to change.
func (l *bank) observe(column uint32, stats []float64, x, z float64, t treatment, field uint16) (ratio, shift float64) {
	ratio = 1
	switch t {
	case treatAlone:
		stats[model.StatCount]++
		stats[model.StatInverse] = 1
	case treatNumeric:
		ratio, shift = l.observeNumeric(column, stats, x, z, field)
	case treatScale, treatCandidate:
		var shrunk bool
		if ratio, shrunk = l.scaling.scaler.ObserveScale(stats, x); shrunk {
			l.rule.Forget(l.table.Touch(column), false, model.FirstReadings/stats[model.StatCount])
		}
		if t == treatCandidate {
			l.scaling.dense.candidate(column, x, stats[model.StatCount] == 1)
		}
	case treatGathered:
		l.scaling.scaler.Gather(stats, x, z)
	case treatSpread:
		ratio = l.observeSpread(column, stats, x, z)
		l.scaling.dense.candidate(column, x, stats[model.StatCount] == 1)
	}
	return ratio, shift
}

// gatherStandardised is gather's loop over the features where a Scaler is on.
func (l *bank) gatherStandardised(e *blankout.Example) {
	now := &l.now
	columns, raw, dense := e.Features.Index, e.Features.Value, l.scaling.scaler.Dense
	if len(dense) > 0 && !l.scaling.scaler.Unfilled {
		columns, raw = l.scaling.fill(e.Features, dense)
	}
	numbers := len(columns)
	if l.bend(e); l.scaling.scaler.Curves != nil {
		columns, raw = l.withHats(columns, raw)
	}
	l.touch(columns)
	// Once it is settled which columns are dense, all but the numeric ones are
	// only divided by a number that seldom changes.
	shared := l.shared()
	settled := l.scaling.scaler.Mode == model.StandardiseScale || l.scaling.scaler.Mode == model.StandardiseAuto && (l.scaling.dense.events >= denseEvents || shared)
	read := &now.read
	kind, field, stored := l.scaling.kinds[0], uint16(0), 0
	for i := 0; i < numbers; i++ {
		for len(dense) > 0 && dense[0] < columns[i] {
			dense = dense[1:] // left out, and not filled in
		}
		isDense := len(dense) > 0 && dense[0] == columns[i]
		if isDense {
			dense = dense[1:]
		}
		if e.Field != nil && stored < len(e.Features.Index) && e.Features.Index[stored] == columns[i] {
			field = e.Field[stored]
			kind = l.scaling.kinds[field]
			stored++
		}
		if settled && !isDense && (kind != blankout.Numeric || l.scaling.scaler.Mode == model.StandardiseScale) {
			end := i + 1
			if e.Field == nil && len(dense) == 0 {
				end = numbers
			} else if e.Field == nil {
				end, _ = slices.BinarySearch(columns, dense[0])
			}
			if i = l.putDivided(i, end, raw); i == end {
				i--
				continue
			}
		}
		row := now.step.Rows[i]
		t := l.treatment(kind, isDense)
		if shared {
			t = l.sharedTreatment(i, t, row)
		}
		x := l.observed(row, columns[i], raw[i], t, field)
		l.put(i, row, x)
		if (read.gathers || read.second) && t == treatNumeric {
			read.note(columns[i], kind, field, x)
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
	l.countDense(e) // may move more weights
	if now.hasMoved {
		l.addMoved(l.bias, 1, -1)
	}
}

// putDivided observes and puts the features from i to end whose columns are only
// divided by a number that stays as it is, as treatScale does, and returns the
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
		xs[i], basis[i], ridge[i] = x, x*x, 0
		if first != 0 {
			ridge[i] = first / n
		}
	}
	return i
}

// observed counts a feature into its column's statistics, moves its weights if that
// has changed what they are measured in, and returns its standardised value.
func (l *bank) observed(row []float64, column uint32, raw float64, t treatment, field uint16) float64 {
	stats := row[:model.ScalerWidth:model.ScalerWidth]
	z, centre, inverse := l.scaling.scaler.Deviations(stats, raw), stats[model.StatCentre], stats[model.StatInverse]
	x := l.scaling.scaler.Clip(stats, z)
	if t == treatNumeric && !l.scaling.bent && l.bending() {
		l.scaling.curves.add(column, field, raw, l.knots(field) > 0 && math.Abs(z) <= model.ScalerClip)
	}
	ratio, shift := l.observe(column, stats, raw, z, t, field)
	if stats[model.StatCentre] != centre || stats[model.StatInverse] != inverse { // seldom
		if t == treatNumeric {
			l.followScale(column, centre, inverse, stats, movedScale{x: x, ratio: ratio, shift: shift})
		}
		l.addMoved(row, x, 1)
		if ratio != 1 || shift != 0 {
			l.move(row, ratio, shift)
		}
		x = l.scaling.scaler.Apply(stats, raw)
		l.addMoved(row, x, -1)
	}
	return x
}

// followScale tells what is gathered of the covariance that a column's centre and scale in
// force are no longer what they were; m says what that does to the event and to weights.
func (l *bank) followScale(column uint32, centre, inverse float64, stats []float64, m movedScale) {
	if !l.now.read.follows {
		return
	}
	var was [model.ScalerWidth]float64
	was[model.StatCentre], was[model.StatInverse] = centre, inverse
	m.column, m.was, m.is = column, l.scaling.scaler.Standardisation(was[:]), l.scaling.scaler.Standardisation(stats)
	l.now.read.moved = append(l.now.read.moved, m)
}

// fill returns the columns and values of x with the dense columns that it leaves
// out as the number 0; they are valid until the next event.
func (s *scaling) fill(x blankout.Vec, dense []uint32) (columns []uint32, raw []float64) {
	columns, raw = s.columns[:0], s.raw[:0]
	from, i := 0, 0
	for _, d := range dense {
		for i < len(x.Index) && x.Index[i] < d {
			i++
		}
		if i == len(x.Index) || x.Index[i] > d {
			columns, raw = append(append(columns, x.Index[from:i]...), d), append(append(raw, x.Value[from:i]...), 0)
			from = i
		}
	}
	if from == 0 && len(columns) == 0 {
		return x.Index, x.Value
	}
	s.columns, s.raw = append(columns, x.Index[from:]...), append(raw, x.Value[from:]...)
	return s.columns, s.raw
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

// move rewrites a feature's weights for a new centre and scale so that no score
// changes: w *= ratio, and the intercept takes up w shift. A gradient by w
// shrinks as w grows, so a metric that sums its squares goes with 1/ratio^2.
//
// It leaves them as they are where that would extrapolate too far: where an
// intercept, which all events share, or the score of a reading one deviation from
// the centre would change by more than maxMove.
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
		if l.refresh.sliding() {
			centre := l.layout.Centre(l.bias)[from:to]
			for k, c := range l.layout.Centre(row)[from:to] {
				centre[k] += c * shift
			}
		}
		l.rule.Shifted(l.bias, row, from, to, shift)
	}
	if l.set.noiseKind == constant {
		for k, w := range w {
			lv.sumsq[k] = max(0, lv.sumsq[k]+w*w*(ratio*ratio-1))
		}
	}
	l.rule.Rescale(row, from, to, ratio)
	if l.refresh.size > 0 {
		d := l.layout.Curvature(row)[from:to]
		for k := range d {
			d[k] /= ratio * ratio
		}
		if l.refresh.sliding() {
			centre := l.layout.Centre(row)[from:to]
			for k := range centre {
				centre[k] *= ratio
			}
		}
	}
}

const maxMove = 1

// denseFinder finds the columns of sparse text formats that count as numeric:
// those present in at least nine of ten of the first denseEvents events, and
// ever after, unless they only say that they are present by a 1. It looks after 10, 20, 40, … events already, so that a stream of
// readings is standardised almost from the start.
type denseFinder struct {
	events     uint64
	candidates []uint32 // columns met while they could still become dense
	// For each candidate the number of readings, their mean, and the sum of squared
	// deviations from it.
	moments []float64
	places  map[uint32]int // of the candidates in their list; nil until needed
	seen    []uint64       // events that held a column, parallel to Scaler.Dense
}

const denseEvents = 1000

// isDense says whether a column in seen of n events is a dense one.
func isDense(seen, n uint64) bool { return 10*seen >= 9*n }

// candidate counts a reading of a column that may become dense: of one that is met
// first, or has been noted as such.
func (d *denseFinder) candidate(column uint32, x float64, first bool) {
	if d.places == nil {
		d.places = map[uint32]int{}
		for i, c := range d.candidates {
			d.places[c] = i
		}
	}
	i, ok := d.places[column]
	if !ok {
		if !first || d.events > denseEvents/10 {
			return
		}
		i = len(d.candidates)
		d.candidates, d.moments = append(d.candidates, column), append(d.moments, 0, 0, 0)
		d.places[column] = i
	}
	m := d.moments[3*i:][:3]
	m[0]++
	delta := x - m[1]
	m[1] += delta / m[0]
	m[2] += delta * (x - m[1])
}

// event counts an event in, after its features have been observed.
func (l *bank) countDense(e *blankout.Example) {
	d := &l.scaling.dense
	d.events++
	if l.scaling.scaler.Mode == model.StandardiseScale || l.shared() {
		return
	}
	if dense := l.scaling.scaler.Dense; len(dense) > 0 {
		i := 0
		for _, column := range e.Features.Index {
			for i < len(dense) && dense[i] < column {
				i++
			}
			if i == len(dense) {
				break
			}
			if dense[i] == column {
				d.seen[i]++
			}
		}
	}
	switch n := d.events; {
	case n < denseEvents && n%10 == 0 && (n/10)&(n/10-1) == 0:
	case n%denseEvents == 0 && (n == denseEvents || len(l.scaling.scaler.Dense) > 0):
	default:
		return
	}
	d.review(l)
}

// review decides again which columns are dense. After the first denseEvents
// events columns only leave.
func (d *denseFinder) review(l *bank) {
	was, wasSeen := l.scaling.scaler.Dense, d.seen
	l.scaling.scaler.Dense, d.seen = nil, nil // fresh memory: snapshots hold the old one
	keep := func(column uint32, seen uint64) {
		i, _ := slices.BinarySearch(l.scaling.scaler.Dense, column)
		l.scaling.scaler.Dense = slices.Insert(l.scaling.scaler.Dense, i, column)
		d.seen = slices.Insert(d.seen, i, seen)
	}
	for i, column := range was {
		if l.scaling.scaler.Unfilled || isDense(wasSeen[i], d.events) {
			keep(column, wasSeen[i])
		} else {
			d.demote(l, l.noteOne(column), wasSeen[i])
			l.now.read.gone = append(l.now.read.gone, column)
		}
	}
	if d.events > denseEvents {
		return
	}
	for i, column := range d.candidates {
		if _, already := slices.BinarySearch(was, column); already {
			continue
		}
		mean, m2 := d.moments[3*i+1], d.moments[3*i+2]
		if mean == 1 && m2 == 0 && l.scaling.scaler.Mode != model.StandardiseAll {
			continue // never anything but 1: one-hot, or a constant
		}
		row := l.noteOne(column)
		if seen := uint64(row[model.StatCount]); isDense(seen, d.events) {
			d.promote(l, row, mean, m2)
			keep(column, seen)
		}
	}
	if d.events >= denseEvents {
		d.candidates, d.moments, d.places = nil, nil, nil
	}
}

// promote turns a column that was divided by its largest value into one that
// is centred and scaled, counting the events without it as the number 0. Its
// readings have the mean and sum of squared deviations given.
func (d *denseFinder) promote(l *bank, row []float64, mean, m2 float64) {
	n, total := row[model.StatCount], float64(d.events)
	if l.scaling.scaler.Unfilled {
		total = n
	}
	m2 += mean * mean * n * (total - n) / total
	mean *= n / total
	was := row[model.StatInverse]
	row[model.StatCount], row[model.StatMean], row[model.StatSquares] = total, mean, m2
	row[model.StatCentre], row[model.StatInverse] = mean, 0
	switch sd := math.Sqrt(m2 / total); {
	case !(sd > 1e-10*math.Abs(mean)):
		l.move(row, 1, mean*was)
	case was > 0:
		row[model.StatInverse] = 1 / sd
		l.move(row, was/row[model.StatInverse], mean*was)
	default: // never anything but 0 until now
		row[model.StatInverse] = 1 / sd
	}
}

// demote is the way back, for a column that is no longer present often enough.
func (d *denseFinder) demote(l *bank, row []float64, seen uint64) {
	n, total := float64(seen), float64(d.events)
	was := l.scaling.scaler.Standardisation(row)
	mean := row[model.StatMean] * total / n
	m2 := max(0, row[model.StatSquares]*total/row[model.StatCount]-mean*mean*n*(total-n)/total)
	if was.Unit != 0 { // of transformed readings; back to about what they were
		largest := was.Unit * math.Sinh(min(math.Abs(was.Centre)+3*was.Scale, 100))
		mean, m2 = 0, n*min(largest*largest, maxMagnitude)/9
	}
	row[model.StatCount], row[model.StatMean], row[model.StatSquares] = n, mean, m2
	row[model.StatCentre], row[model.StatInverse] = 0, 1/max(1, math.Abs(mean)+3*math.Sqrt(m2/n))
	if l.scaling.scaler.Mode == model.StandardiseAll {
		row[model.StatInverse] = model.SpreadInverse(row, total)
	} else {
		model.Unwatch(row)
	}
	if was.Scale > 0 && was.Unit == 0 && row[model.StatInverse] > 0 {
		l.move(row, 1/(was.Scale*row[model.StatInverse]), -was.Centre/was.Scale)
	}
}

func (d *denseFinder) state(c *coder.Coder) {
	c.Uint(&d.events)
	c.Uint32s(&d.candidates)
	c.Floats(&d.moments)
	c.Uints(&d.seen)
}
