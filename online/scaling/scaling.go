// Package scaling observes the features of events. It determines the statistics of columns and their restarts, the
// dense columns, and the knots of splines. The statistics are in the same rows as the weights, which the package does
// not change: a Move describes how the caller must change the weights.
package scaling

import (
	"slices"

	"blankout/internal/coder"
	"blankout/internal/event"
	"blankout/internal/model"
)

// Scaling holds the published Scaler of a learner, and the state that determines dense columns and restarts.
type Scaling struct {
	Settings
	Scaler model.Scaler
	denseFinder
	counts     countFinder
	recent     recentReadings
	shrinks    map[uint32]*shrink
	again      map[uint32][]float64 // readings for new knots by column, see readAgain
	knots      earlyReadings
	KnotsFound bool // the knots have been determined
	// By field, for the fields of the Schema that have been added:
	Kinds      []event.Kind
	transforms []model.Transform
	// The columns and values of an event, with its absent dense columns and its presence columns added.
	WithDense event.Vec
	Reviewed  bool // the last Review has recomputed the list of numeric columns
}

// Settings select what a Scaling must determine.
type Settings struct {
	Constant bool // the noise is constant, see rows.Event.Basis
	Presence bool // find numeric columns that are often absent
	Named    bool // find such columns only in named fields
	// Expert returns the largest number of knots of the second-order expert's splines, given the number of numeric
	// columns. Expert is nil if there is no such expert.
	Expert func(numbers int) int
}

// New returns the Scaling of a new stream.
func New(s Settings, mode model.Standardize, unfilled bool) Scaling {
	return Scaling{Settings: s, Scaler: model.Scaler{Mode: mode, Unfilled: unfilled}}
}

// AddField adds a field, with the transform of its numeric values.
func (s *Scaling) AddField(k event.Kind, t model.Transform) {
	if id := len(s.Kinds); id < len(s.counts.fields) && s.counts.fields[id].counts {
		k = countKind // in a decoded state
	}
	s.Kinds, s.transforms = append(s.Kinds, k), append(s.transforms, t)
}

// Treatment is how a feature is scaled.
type Treatment int

const (
	Alone     Treatment = iota // not scaled
	Divided                    // divided by the largest |x|
	Candidate                  // like Divided, while the column can still become dense
	Numeric                    // centered and scaled
	Spread                     // divided by the standard deviation over all events
)

// SpreadColumns returns the columns of a sparse text format that are treated as Spread, ascending.
func (s *Scaling) SpreadColumns() []uint32 { return s.spread }

// Treat returns the treatment of a feature. spread reports whether its column is one of SpreadColumns. settled reports
// whether the dense columns are final.
func (s *Scaling) Treat(k event.Kind, dense, spread, settled bool) Treatment {
	switch {
	case s.Scaler.Mode == model.StandardizeScale:
		return Divided
	case dense || k == event.Numeric:
		return Numeric
	case s.Scaler.Mode == model.StandardizeAll || spread:
		return Spread
	case k == event.Cross:
		return Divided
	case k == event.Sparse:
		if !settled {
			return Candidate
		}
		return Divided
	}
	return Alone
}

// Settled reports whether the dense columns are final.
func (s *Scaling) Settled() bool { return s.Events >= denseEvents }

// Move describes how the weights of a column must change so that scores stay the same. The weights are multiplied by
// Ratio, and Shift times their old value is added to the intercepts. The accumulators, which were summed in other
// units, are multiplied by Keep.
type Move struct{ Ratio, Shift, Keep float64 }

// still is the Move that changes no weight.
var still = Move{1, 0, 1}

// Moves reports whether weights change.
func (m Move) Moves() bool { return m.Ratio != 1 || m.Shift != 0 }

// Observe adds a feature to the statistics of its column. z is the distance of x from the center of the column, in
// standard deviations.
func (s *Scaling) Observe(column uint32, stats []float64, x, z float64, t Treatment, field uint16) (m Move) {
	m = still
	switch t {
	case Alone:
		stats[model.StatCount]++
		stats[model.StatInverse] = 1
	case Numeric:
		m = s.observeNumeric(column, stats, x, z, field)
	case Divided, Candidate:
		var shrunk bool
		if m.Ratio, shrunk = s.Scaler.ObserveScale(stats, x); shrunk {
			m.Keep = model.FirstReadings / stats[model.StatCount]
			s.restartCandidate(column)
		}
		if t == Candidate {
			s.candidate(column, x, stats[model.StatInverse], stats[model.StatCount] == 1)
		}
	case Spread:
		m = s.observeSpread(column, stats, x, z)
		s.candidate(column, x, stats[model.StatInverse], stats[model.StatCount] == 1)
	}
	return m
}

// Freeze makes the statistics of all events take effect for a column. k is the kind of its field.
func (s *Scaling) Freeze(column uint32, stats []float64, k event.Kind) {
	_, dense := slices.BinarySearch(s.Scaler.Dense, column)
	_, spread := slices.BinarySearch(s.spread, column)
	if s.counts.isCount(column) {
		k = countKind
	}
	switch s.Treat(k, dense, spread, true) {
	case Numeric:
		model.Renew(stats)
	case Spread:
		stats[model.StatInverse] = model.SpreadInverse(stats, float64(s.Events))
	}
}

// Columns returns the columns and values of an event's features for learning. They include absent dense columns, and
// the presence columns after the first numbers columns. The result is valid until the next event.
func (s *Scaling) Columns(x event.Vec) (columns []uint32, raw []float64, numbers int) {
	x = s.Scaler.AddDense(x, &s.WithDense)
	if numbers = x.Len(); s.Scaler.Splines != nil {
		x = s.withPresence(x)
	}
	return x.Index, x.Value, numbers
}

// DenseState encodes or decodes the state that determines the dense columns and the fields that count.
func (s *Scaling) DenseState(c *coder.Coder) {
	s.denseFinder.state(c)
	s.countsState(c)
}

// ReadingsState encodes or decodes the readings that determine restarts.
func (s *Scaling) ReadingsState(c *coder.Coder) {
	s.recent.state(c)
	s.shrinksState(c)
	s.againState(c)
}

// KnotsState encodes or decodes the state that determines the knots.
func (s *Scaling) KnotsState(c *coder.Coder) {
	if s.wantsKnots() {
		c.Bool(&s.KnotsFound)
	}
	if s.SeeksKnots() {
		s.knots.state(c)
	}
}

// Misfit reports whether DenseState has decoded a state that does not fit the Scaler.
func (s *Scaling) Misfit() bool {
	return len(s.seen) != len(s.Scaler.Dense) || len(s.moments) != 3*len(s.candidates)
}

// Read holds the numeric values of an event and changes of columns. The order of processing is: changes of scales, then
// standardized values, then columns that are no longer numeric.
type Read struct {
	Moved   []Moved
	Values  []Value
	Spread  []Value // values of columns that are 0 if absent, if columns can be missing
	Removed []uint32
}

// Moved is a change of a column's center and scale in effect.
type Moved struct {
	Column  uint32
	Was, Is model.Standardization
}

// Value is a numeric value of an event.
type Value struct {
	Column uint32
	Field  uint16  // field of the event; 0 in a sparse text format
	X      float64 // standardized value
	Raw    float64 // raw value
}

// Clear removes all values and changes, before the next event.
func (r *Read) Clear() {
	r.Moved, r.Values, r.Spread, r.Removed = r.Moved[:0], r.Values[:0], r.Spread[:0], r.Removed[:0]
}
