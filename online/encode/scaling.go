package encode

// This file observes the features of events. It determines the statistics of columns and their restarts, the dense
// columns, and the knots of splines. The statistics are in the same rows as the weights, which it does not change:
// factors describe how the caller must change the weights.

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"blankout/internal/coder"
	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/model"
)

// Scaling holds the published Scaler of a learner, and the state that determines dense columns and restarts.
type Scaling struct {
	set    Settings
	Scaler model.Scaler
	denseFinder
	counts     countFinder
	recent     recentReadings
	shrinks    map[uint32]*shrink
	again      map[uint32][]float64 // readings for new knots by column, see readAgain
	knots      earlyReadings
	knotsFound bool // the knots have been determined
	// By field, for the fields of the Schema that have been added:
	Kinds []event.Kind
	// The columns and values of an event, with its absent dense columns and its presence columns added.
	withDense event.Vec
}

// newScaling returns the Scaling of a new stream. unfilled is Scaler.Unfilled.
func newScaling(set Settings, unfilled bool) Scaling {
	return Scaling{set: set, Scaler: model.Scaler{Mode: set.Standardize, Unfilled: unfilled}}
}

// addField adds a field of a kind.
func (s *Scaling) addField(k event.Kind) {
	if id := len(s.Kinds); id < len(s.counts.fields) && s.counts.fields[id].counts {
		k = countKind // in a decoded state
	}
	s.Kinds = append(s.Kinds, k)
}

// treatment is how a feature is scaled.
type treatment int

const (
	treatAlone     treatment = iota // not scaled
	treatDivided                    // divided by the largest |x|
	treatCandidate                  // like treatDivided, while the column can still become dense
	treatNumeric                    // centered and scaled
	treatSpread                     // divided by the standard deviation over all events
)

// SpreadColumns returns the columns of a sparse text format that are treated by treatSpread, ascending.
func (s *Scaling) SpreadColumns() []uint32 { return s.spread }

// treat returns the treatment of a feature. spread reports whether its column is one of SpreadColumns. settled reports
// whether the dense columns are final.
func (s *Scaling) treat(k event.Kind, dense, spread, settled bool) treatment {
	switch {
	case s.Scaler.Mode == model.StandardizeScale:
		return treatDivided
	case dense || k == event.Numeric:
		return treatNumeric
	case s.Scaler.Mode == model.StandardizeAll || spread:
		return treatSpread
	case k == event.Cross:
		return treatDivided
	case k == event.Sparse:
		if !settled {
			return treatCandidate
		}
		return treatDivided
	}
	return treatAlone
}

// settled reports whether the dense columns are final.
func (s *Scaling) settled() bool { return s.events >= denseEvents }

// factors describe how the weights of a column must change so that scores stay the same. The weights are multiplied by
// Ratio, and Shift times their old value is added to the intercepts. The accumulators, which were summed in other
// units, are multiplied by Keep.
type factors struct{ Ratio, Shift, Keep float64 }

// still are the factors that changes no weight.
var still = factors{1, 0, 1}

// moves reports whether weights change.
func (m factors) moves() bool { return m.Ratio != 1 || m.Shift != 0 }

// observe adds a feature to the statistics of its column. z is the distance of x from the center of the column, in
// standard deviations.
func (s *Scaling) observe(column uint32, stats []float64, x, z float64, t treatment, field uint16) (m factors) {
	m = still
	switch t {
	case treatAlone:
		stats[model.StatCount]++
		stats[model.StatInverse] = 1
	case treatNumeric:
		m = s.observeNumeric(column, stats, x, z, field)
	case treatDivided, treatCandidate:
		var shrunk bool
		if m.Ratio, shrunk = s.Scaler.ObserveScale(stats, x); shrunk {
			m.Keep = model.FirstReadings / stats[model.StatCount]
			s.restartCandidate(column)
		}
		if t == treatCandidate {
			s.candidate(column, x, stats[model.StatInverse], stats[model.StatCount] == 1)
		}
	case treatSpread:
		m = s.observeSpread(column, stats, x, z)
		s.candidate(column, x, stats[model.StatInverse], stats[model.StatCount] == 1)
	}
	return m
}

// freeze makes the statistics of all events take effect for a column. k is the kind of its field.
func (s *Scaling) freeze(column uint32, stats []float64, k event.Kind) {
	_, dense := slices.BinarySearch(s.Scaler.Dense, column)
	_, spread := slices.BinarySearch(s.spread, column)
	if s.counts.isCount(column) {
		k = countKind
	}
	switch s.treat(k, dense, spread, true) {
	case treatNumeric:
		model.Renew(stats)
	case treatSpread:
		stats[model.StatInverse] = model.SpreadInverse(stats, float64(s.events))
	}
}

// columns returns the columns and values of an event's features for learning. They include absent dense columns, and
// the presence columns after the first numbers columns. The result is valid until the next event.
func (s *Scaling) columns(x event.Vec) (columns []uint32, raw []float64, numbers int) {
	x = s.Scaler.AddDense(x, &s.withDense)
	if numbers = x.Len(); s.Scaler.Splines != nil {
		x = s.withPresence(x)
	}
	return x.Index, x.Value, numbers
}

// denseState encodes or decodes the state that determines the dense columns and the fields that count.
func (s *Scaling) denseState(c *coder.Coder) {
	s.denseFinder.state(c)
	s.countsState(c)
}

// readingsState encodes or decodes the readings that determine restarts.
func (s *Scaling) readingsState(c *coder.Coder) {
	s.recent.state(c)
	s.shrinksState(c)
	s.againState(c)
}

// knotsState encodes or decodes the state that determines the knots.
func (s *Scaling) knotsState(c *coder.Coder) {
	if s.wantsKnots() {
		c.Bool(&s.knotsFound)
	}
	if s.seeksKnots() {
		s.knots.state(c)
	}
}

// misfit reports whether denseState has decoded a state that does not fit the Scaler.
func (s *Scaling) misfit() bool {
	return len(s.seen) != len(s.Scaler.Dense) || len(s.moments) != 3*len(s.candidates)
}

// Numbers holds the numeric values of an event and changes of columns. The order of processing is: changes of scales, then
// standardized values, then columns that are no longer numeric.
type Numbers struct {
	Moved   []Moved
	Values  []Number
	Spread  []Number // values of columns that are 0 if absent, if columns can be missing
	Removed []uint32
}

// Moved is a change of a column's center and scale in effect.
type Moved struct {
	Column  uint32
	Was, Is model.Standardization
}

// Number is a numeric value of an event.
type Number struct {
	Column uint32
	Field  uint16  // field of the event; 0 in a sparse text format
	X      float64 // standardized value
	Raw    float64 // raw value
}

// Clear removes all values and changes, before the next event.
func (r *Numbers) Clear() {
	r.Moved, r.Values, r.Spread, r.Removed = r.Moved[:0], r.Values[:0], r.Spread[:0], r.Removed[:0]
}

// The part below finds numeric columns whose scale is too large, because the first readings were in another unit or were
// outliers. Scales that are too small are found by counting readings beyond the clip.

const (
	// One reading in sampleEvery is sampled. model.FirstReadings consecutive sampled readings form a sample, which is
	// judged as a whole.
	sampleEvery = 8
	// A column restarts if consecutive samples span less than 1/model.ScalerClip of its scale. Together these samples
	// must cover a quarter of the column's readings, or longestShrink readings.
	longestShrink, leastShrink = 8192, 2 * model.FirstReadings * sampleEvery
	// The means of these samples must lie within mostDrift times the scale of a sample. No sample may be monotone,
	// because the latest readings of a counter are always close together.
	mostDrift = 4
)

// shrink holds the sampled readings of a column.
type shrink struct {
	values []float64
	// small is the number of readings covered by consecutive samples with a small scale. low and high are the smallest
	// and the largest mean of these samples.
	small, low, high float64
}

// isSampled reports whether the n-th reading of a column is sampled.
func isSampled(n float64) bool {
	return n > watchUntil && uint64(n)%sampleEvery == 0
}

// sample adds a sampled reading. If the column must restart, sample returns the readings with which it must restart,
// otherwise nil.
func (s *Scaling) sample(column uint32, stats []float64, x float64) []float64 {
	r := s.shrinks[column]
	if r == nil {
		if s.shrinks == nil {
			s.shrinks = map[uint32]*shrink{}
		}
		r = &shrink{values: make([]float64, 0, model.FirstReadings)}
		s.shrinks[column] = r
	}
	if r.values = append(r.values, x); len(r.values) < model.FirstReadings {
		return nil
	}
	full, was := r.values, s.Scaler.Standardization(stats)
	if was.Unit == 0 && isWide(full, was.Scale) {
		r.small, r.values = 0, full[:0]
		return nil
	}
	now := s.scaleOf(full, was.Unit)
	switch r.values = r.values[:0]; {
	case now.Scale == 0: // constant readings do not show the scale
	case now.Scale*model.ScalerClip < was.Scale && !isCounter(full):
		if r.small == 0 {
			r.low, r.high = now.Center, now.Center
		}
		r.low, r.high = min(r.low, now.Center), max(r.high, now.Center)
		if r.high-r.low > mostDrift*now.Scale {
			r.small, r.low, r.high = 0, now.Center, now.Center
		}
		if r.small += model.FirstReadings * sampleEvery; r.small >= max(leastShrink, min(stats[model.StatCount]/4, longestShrink)) {
			r.small = 0
			return full
		}
	default:
		r.small = 0
	}
	return nil
}

// samples adds the n-th reading of a column, within the clip, to the column's sample. done is false if observe must add it:
// it is not sampled, completes a sample, or renews the scale.
func (s *Scaling) samples(column uint32, n, x float64) (done bool) {
	if !isSampled(n) || model.Renews(n) {
		return false
	}
	r := s.shrinks[column]
	if r == nil || len(r.values) >= model.FirstReadings-1 {
		return false
	}
	r.values = append(r.values, x)
	return true
}

// isWide reports whether the scale of model.FirstReadings readings certainly exceeds 1/model.ScalerClip of a scale, which
// takes less time than scaleOf. It is certain if enough of the pairs of readings differ by at least pairWide of the scale:
// scaleOf excludes at most a quarter of the readings, which are in as many pairs, and each other pair adds half of its
// squared difference to the sum of squared deviations.
func isWide(readings []float64, scale float64) bool {
	const pairs, pairWide = model.FirstReadings / 2, 0.42
	wide := 0
	for i, x := range readings[:pairs] {
		if math.Abs(x-readings[pairs+i]) >= pairWide*scale {
			wide++
		}
	}
	certain := pairWide * pairWide / 2 * float64(wide-model.FirstReadings/4)
	return certain > model.FirstReadings/float64(model.ScalerClip*model.ScalerClip)
}

// isCounter reports whether readings ascend or descend from first to last.
func isCounter(readings []float64) bool {
	return slices.IsSorted(readings) || slices.IsSortedFunc(readings, func(a, b float64) int { return cmp.Compare(b, a) })
}

// shrinksState encodes or decodes the samples of all columns, in ascending order of columns.
func (s *Scaling) shrinksState(c *coder.Coder) {
	columns := slices.Sorted(maps.Keys(s.shrinks))
	if c.Uint32s(&columns); c.Decode {
		s.shrinks = map[uint32]*shrink{}
	}
	for _, column := range columns {
		r := s.shrinks[column]
		if c.Decode {
			r = &shrink{}
			s.shrinks[column] = r
		}
		c.Floats(&r.values)
		c.Each(&r.small, &r.low, &r.high)
		c.Failed = c.Failed || len(r.values) >= model.FirstReadings
	}
}

// The part below finds the dense columns of sparse text formats.

// denseFinder finds the columns of sparse text formats that are treated as numeric. These columns are present in at
// least nine of ten of the first denseEvents events, and of all later events. If absent columns are missing, the usual
// columns are dense (see model.ColumnUse). Columns that are always 1 are excluded. With standardize = auto they are dense
// only if events have at least a tenth of all columns, as rows of a table have. The counts of usual words in texts are
// not centered: experts of these few numbers would follow the labels of the latest texts.
// It decides after 10, 20, 40, … events, so that a stream of readings is standardized almost from the start.
//
// It also finds "spread" columns, which are divided by their standard deviation over all events. Dividing them by their
// largest value would make most readings tiny. It does so only in tables too. Spread columns vary and are present in six of ten events. One event in 32 suffices
// if their usual value is below a third of the largest.
type denseFinder struct {
	events     uint64   // number of observed events
	candidates []uint32 // columns that can become dense
	// For each candidate: the number of readings, their mean, and their sum of squared deviations.
	moments []float64
	places  map[uint32]int // index of each candidate; nil until needed
	seen    []uint64       // number of events with each column of Scaler.Dense
	held    uint64         // number of features in the first denseEvents events
	spread  []uint32       // columns of tables that are divided by their standard deviation, ascending
}

const (
	denseEvents = 1000
	// If events are rows of a table, its spread columns are determined after tableEvents events.
	tableEvents = 20
)

// isDense reports whether a column that was in seen of n events is dense.
func isDense(seen, n uint64) bool { return 10*seen >= 9*n }

// isTable reports whether an average event has at least a tenth of all columns, like a row of a table.
func (d *denseFinder) isTable() bool {
	return d.events >= tableEvents && 10*d.held >= d.events*uint64(len(d.candidates))
}

// isNarrow reports whether the first events have half of all columns on the average. It decides about tables before
// there are tableEvents events. A text has few of the words of ten texts.
func (d *denseFinder) isNarrow() bool {
	return d.events < tableEvents && 2*d.held >= d.events*uint64(len(d.candidates))
}

// isNumber reports whether a column of a table, in seen of n events, is divided by its standard deviation. Its readings
// have the given mean and variance, and are currently multiplied by inverse. The largest of few readings is uncertain.
func isNumber(seen, n, mean, variance, inverse float64) bool {
	usual := math.Sqrt(mean*mean+variance) * inverse
	return variance > 0 && (10*seen >= 6*n || 32*seen >= n && 3*usual < 1+3/math.Sqrt(seen))
}

// candidate adds a reading x of a column that can become dense. first reports whether it is the first reading of the
// column. If the column is divided by a scale, x has been multiplied by inverse.
func (d *denseFinder) candidate(column uint32, x, inverse float64, first bool) {
	if len(d.candidates) == 0 && d.events > denseEvents/10 {
		return // no further column can become a candidate
	}
	if z := x * inverse; math.Abs(z) > model.ScalerClip {
		x = math.Copysign(model.ScalerClip, x) / inverse // an outlier is clipped
	}
	i, ok := d.index(column)
	if !ok {
		if !first || d.events > denseEvents/10 {
			return
		}
		i = len(d.candidates)
		d.candidates, d.moments = append(d.candidates, column), append(d.moments, 0, 0, 0)
		d.places[column] = i
	}
	model.AddMoments((*[3]float64)(d.moments[3*i:]), x)
}

// index returns the index of a column among the candidates. ok is false if the column is not a candidate.
func (d *denseFinder) index(column uint32) (i int, ok bool) {
	if d.places == nil {
		d.places = map[uint32]int{}
		for i, c := range d.candidates {
			d.places[c] = i
		}
	}
	i, ok = d.places[column]
	return i, ok
}

// restartCandidate discards the readings of a candidate, because they were outliers.
func (d *denseFinder) restartCandidate(column uint32) {
	if i, ok := d.index(column); ok {
		clear(d.moments[3*i:][:3])
	}
}

// count counts an event whose features have been observed, for a learner outside a group. due reports whether it is
// time to call review.
func (s *Scaling) count(x event.Vec) (due bool) {
	s.events++
	if s.Scaler.Mode == model.StandardizeScale {
		return false
	}
	if s.events <= denseEvents {
		s.held += uint64(x.Len())
	}
	if dense := s.Scaler.Dense; slices.Equal(x.Index, dense) { // usual in a table
		for i := range dense {
			s.seen[i]++
		}
	} else if len(dense) > 0 {
		for i := range model.CommonColumns(dense, x.Index) {
			s.seen[i]++
		}
	}
	switch n := s.events; {
	case n < denseEvents:
		return n%10 == 0 && (n/10)&(n/10-1) == 0
	case n%denseEvents == 0:
		return n == denseEvents || len(s.Scaler.Dense) > 0
	}
	return false
}

// review recomputes the dense columns. It adds columns only in the first denseEvents events, and always removes columns
// that have become too rare. row returns the row of a column, and move converts the weights of a row to changed
// statistics. gone lists the removed columns.
//
// usual lists, in ascending order, the columns whose absence is a loss. If absent columns are missing, they are dense.
func (s *Scaling) review(usual []uint32, row func(column uint32) []float64, move func(row []float64, ratio, shift float64)) (gone []uint32) {
	was, wasSeen := s.Scaler.Dense, s.seen
	s.Scaler.Dense, s.seen = nil, nil // snapshots share the old memory
	isUsual := func(column uint32) bool {
		_, is := slices.BinarySearch(usual, column)
		return is
	}
	keep := func(column uint32, seen uint64) {
		i, _ := slices.BinarySearch(s.Scaler.Dense, column)
		s.Scaler.Dense = slices.Insert(s.Scaler.Dense, i, column)
		s.seen = slices.Insert(s.seen, i, seen)
	}
	apply := func(row []float64, m factors) {
		if m.moves() {
			move(row, m.Ratio, m.Shift)
		}
	}
	for i, column := range was {
		if isDense(wasSeen[i], s.events) || s.Scaler.Unfilled && (s.events > denseEvents || isUsual(column)) {
			keep(column, wasSeen[i])
		} else {
			row := row(column)
			apply(row, s.demote(row, wasSeen[i]))
			gone = append(gone, column)
		}
	}
	if s.events > denseEvents {
		return gone
	}
	table := s.Scaler.Mode == model.StandardizeAuto && s.isTable()
	centers := table || s.Scaler.Mode != model.StandardizeAuto || s.Scaler.Unfilled || s.isNarrow()
	for i, column := range s.candidates {
		if _, already := slices.BinarySearch(was, column); already {
			continue
		}
		mean, m2 := s.moments[3*i+1], s.moments[3*i+2]
		if mean == 1 && m2 == 0 && s.Scaler.Mode != model.StandardizeAll {
			continue // always 1: one-hot category or constant
		}
		row := row(column)
		if seen := uint64(row[model.StatCount]); centers && isDense(seen, s.events) || s.Scaler.Unfilled && isUsual(column) {
			if i, spread := slices.BinarySearch(s.spread, column); spread {
				s.spread = slices.Delete(slices.Clone(s.spread), i, i+1)
			}
			apply(row, s.promote(row, mean, m2))
			keep(column, seen)
		} else if table && isNumber(float64(seen), float64(s.events), mean, m2/max(s.moments[3*i], 1), row[model.StatInverse]) {
			if i, already := slices.BinarySearch(s.spread, column); !already {
				s.spread = slices.Insert(slices.Clone(s.spread), i, column)
				apply(row, s.divideByDeviation(row, mean, m2/max(s.moments[3*i], 1)))
			}
		}
	}
	if s.events >= denseEvents {
		s.candidates, s.moments, s.places = nil, nil, nil
	}
	return gone
}

// promote centers and scales a column that was divided by its largest value. Events without the column count as 0. mean
// and m2 are the mean and the sum of squared deviations of its readings.
func (s *Scaling) promote(row []float64, mean, m2 float64) factors {
	n, total := row[model.StatCount], float64(s.events)
	if s.Scaler.Unfilled {
		total = n
	}
	m2 += mean * mean * n * (total - n) / total
	mean *= n / total
	was := row[model.StatInverse]
	row[model.StatCount], row[model.StatMean], row[model.StatSquares] = total, mean, m2
	row[model.StatCenter], row[model.StatInverse] = mean, 0
	switch sd := math.Sqrt(m2 / total); {
	case !(sd > 1e-10*math.Abs(mean)):
		return factors{1, mean * was, 1}
	case was > 0:
		row[model.StatInverse] = 1 / sd
		return factors{was / row[model.StatInverse], mean * was, 1}
	default: // always 0 so far
		row[model.StatInverse] = 1 / sd
	}
	return still
}

// divideByDeviation changes the divisor of a column from its largest value to its standard deviation over all events.
// Its readings have the given mean and variance.
func (s *Scaling) divideByDeviation(row []float64, mean, variance float64) factors {
	was := row[model.StatInverse]
	row[model.StatMean], row[model.StatSquares] = mean, variance*row[model.StatCount]
	row[model.StatInverse] = model.SpreadInverse(row, float64(s.events))
	if was > 0 && row[model.StatInverse] > 0 {
		return factors{was / row[model.StatInverse], 0, 1}
	}
	return still
}

// demote reverses promote for a column that is too rare.
func (s *Scaling) demote(row []float64, seen uint64) factors {
	n, total := float64(seen), float64(s.events)
	was := s.Scaler.Standardization(row)
	mean := row[model.StatMean] * total / n
	m2 := max(0, row[model.StatSquares]*total/row[model.StatCount]-mean*mean*n*(total-n)/total)
	if was.Unit != 0 { // the statistics are of transformed readings, and are converted approximately
		largest := was.Unit * loss.Sinh(min(math.Abs(was.Center)+3*was.Scale, 100))
		mean, m2 = 0, n*min(largest*largest, event.MaxMagnitude)/9
	}
	row[model.StatCount], row[model.StatMean], row[model.StatSquares] = n, mean, m2
	row[model.StatCenter], row[model.StatInverse] = 0, 1/max(1, math.Abs(mean)+3*math.Sqrt(m2/n))
	if s.Scaler.Mode == model.StandardizeAll {
		row[model.StatInverse] = model.SpreadInverse(row, total)
	} else {
		model.Unwatch(row)
	}
	if was.Scale > 0 && was.Unit == 0 && row[model.StatInverse] > 0 {
		return factors{1 / (was.Scale * row[model.StatInverse]), -was.Center / was.Scale, 1}
	}
	return still
}

func (d *denseFinder) state(c *coder.Coder) {
	c.Uint(&d.events)
	c.Uint32s(&d.candidates)
	c.Floats(&d.moments)
	c.Uints(&d.seen)
	c.Uint(&d.held)
	c.Uint32s(&d.spread)
}
