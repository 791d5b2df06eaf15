package scaling

// This file finds the dense columns of sparse text formats.

import (
	"math"
	"slices"

	"blankout/internal/coder"
	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/model"
)

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
	Events     uint64   // number of observed events
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
	return d.Events >= tableEvents && 10*d.held >= d.Events*uint64(len(d.candidates))
}

// isNarrow reports whether the first events have half of all columns on the average. It decides about tables before
// there are tableEvents events. A text has few of the words of ten texts.
func (d *denseFinder) isNarrow() bool {
	return d.Events < tableEvents && 2*d.held >= d.Events*uint64(len(d.candidates))
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
	if len(d.candidates) == 0 && d.Events > denseEvents/10 {
		return // no further column can become a candidate
	}
	if z := x * inverse; math.Abs(z) > model.ScalerClip {
		x = math.Copysign(model.ScalerClip, x) / inverse // an outlier is clipped
	}
	i, ok := d.index(column)
	if !ok {
		if !first || d.Events > denseEvents/10 {
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

// Count counts an event whose features have been observed, for a learner outside a group. due reports whether it is
// time to call Review.
func (s *Scaling) Count(x event.Vec) (due bool) {
	s.Events++
	if s.Scaler.Mode == model.StandardizeScale {
		return false
	}
	if s.Events <= denseEvents {
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
	switch n := s.Events; {
	case n < denseEvents:
		return n%10 == 0 && (n/10)&(n/10-1) == 0
	case n%denseEvents == 0:
		return n == denseEvents || len(s.Scaler.Dense) > 0
	}
	return false
}

// Review recomputes the dense columns. It adds columns only in the first denseEvents events, and always removes columns
// that have become too rare. row returns the row of a column, and move converts the weights of a row to changed
// statistics. gone lists the removed columns.
//
// usual lists, in ascending order, the columns whose absence is a loss. If absent columns are missing, they are dense.
func (s *Scaling) Review(usual []uint32, row func(column uint32) []float64, move func(row []float64, ratio, shift float64)) (gone []uint32) {
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
	apply := func(row []float64, m Move) {
		if m.Moves() {
			move(row, m.Ratio, m.Shift)
		}
	}
	for i, column := range was {
		if isDense(wasSeen[i], s.Events) || s.Scaler.Unfilled && (s.Events > denseEvents || isUsual(column)) {
			keep(column, wasSeen[i])
		} else {
			row := row(column)
			apply(row, s.demote(row, wasSeen[i]))
			gone = append(gone, column)
		}
	}
	if s.Events > denseEvents {
		return gone
	}
	s.Reviewed = true
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
		if seen := uint64(row[model.StatCount]); centers && isDense(seen, s.Events) || s.Scaler.Unfilled && isUsual(column) {
			if i, spread := slices.BinarySearch(s.spread, column); spread {
				s.spread = slices.Delete(slices.Clone(s.spread), i, i+1)
			}
			apply(row, s.promote(row, mean, m2))
			keep(column, seen)
		} else if table && isNumber(float64(seen), float64(s.Events), mean, m2/max(s.moments[3*i], 1), row[model.StatInverse]) {
			if i, already := slices.BinarySearch(s.spread, column); !already {
				s.spread = slices.Insert(slices.Clone(s.spread), i, column)
				apply(row, s.divideByDeviation(row, mean, m2/max(s.moments[3*i], 1)))
			}
		}
	}
	if s.Events >= denseEvents {
		s.candidates, s.moments, s.places = nil, nil, nil
	}
	return gone
}

// promote centers and scales a column that was divided by its largest value. Events without the column count as 0. mean
// and m2 are the mean and the sum of squared deviations of its readings.
func (s *Scaling) promote(row []float64, mean, m2 float64) Move {
	n, total := row[model.StatCount], float64(s.Events)
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
		return Move{1, mean * was, 1}
	case was > 0:
		row[model.StatInverse] = 1 / sd
		return Move{was / row[model.StatInverse], mean * was, 1}
	default: // always 0 so far
		row[model.StatInverse] = 1 / sd
	}
	return still
}

// divideByDeviation changes the divisor of a column from its largest value to its standard deviation over all events.
// Its readings have the given mean and variance.
func (s *Scaling) divideByDeviation(row []float64, mean, variance float64) Move {
	was := row[model.StatInverse]
	row[model.StatMean], row[model.StatSquares] = mean, variance*row[model.StatCount]
	row[model.StatInverse] = model.SpreadInverse(row, float64(s.Events))
	if was > 0 && row[model.StatInverse] > 0 {
		return Move{was / row[model.StatInverse], 0, 1}
	}
	return still
}

// demote reverses promote for a column that is too rare.
func (s *Scaling) demote(row []float64, seen uint64) Move {
	n, total := float64(seen), float64(s.Events)
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
		return Move{1 / (was.Scale * row[model.StatInverse]), -was.Center / was.Scale, 1}
	}
	return still
}

func (d *denseFinder) state(c *coder.Coder) {
	c.Uint(&d.Events)
	c.Uint32s(&d.candidates)
	c.Floats(&d.moments)
	c.Uints(&d.seen)
	c.Uint(&d.held)
	c.Uint32s(&d.spread)
}
