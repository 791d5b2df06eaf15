// Package scaling observes the features of events: the statistics of columns, where these begin, which
// columns are dense, and the knots of the curves of numbers. Statistics share rows with weights, of
// which the package knows nothing: a Move says what they must become.
package scaling

import (
	"blankout/internal/coder"
	"blankout/internal/event"
	"blankout/internal/model"
)

// Scaling is what a learner knows of its columns: the Scaler that is published, and
// what decides which columns are dense and where the statistics of a column begin.
type Scaling struct {
	Settings
	Scaler model.Scaler
	denseFinder
	recent  recentReadings
	shrinks map[uint32]*shrink
	again   map[uint32][]float64 // see readAgain
	curves  curveReadings
	Bent    bool // the knots have been looked for
	// By field of the Schema, for the fields met so far.
	Kinds      []event.Kind
	transforms []model.Transform
	// The columns and values of an event that leaves dense columns out, or has hats.
	Filled event.Vec
	Hats   event.Vec // of the event at hand
	Read   Read      // of it
}

// Settings say what is looked for.
type Settings struct {
	Constant bool // the noise is constant, see rows.Event.Basis
	Presence bool // numbers that are often left out are looked for
	// Expert returns the most knots of a curve that the second-order expert has, of so many numbers;
	// nil where there is no expert.
	Expert func(numbers int) int
}

// New returns the Scaling of a stream that begins.
func New(s Settings, mode model.Standardize, unfilled bool) Scaling {
	return Scaling{Settings: s, Scaler: model.Scaler{Mode: mode, Unfilled: unfilled}}
}

// AddField takes up a field: how its numbers are transformed.
func (s *Scaling) AddField(k event.Kind, t model.Transform) {
	s.Kinds, s.transforms = append(s.Kinds, k), append(s.transforms, t)
}

// Treatment is what the Scaler does with a feature of the event at hand.
type Treatment int

const (
	Alone     Treatment = iota // as it is
	Divided                    // divided by the largest |x|
	Candidate                  // the same, while it is open whether the column is dense
	Numeric                    // centered and scaled
	Spread                     // scaled by its deviation over all events
	Gathered                   // centered and scaled by what the fold has put in force
)

// SpreadColumns returns the columns of a sparse text format that are treated as Spread though not all are, ascending.
func (s *Scaling) SpreadColumns() []uint32 { return s.spread }

// Treat returns the treatment of a feature; spread says that its column is one of SpreadColumns, settled that it is
// settled which columns are dense.
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

// Settled says whether it is settled which columns become dense for one who learns alone.
func (s *Scaling) Settled() bool { return s.Events >= denseEvents }

// Move says what follows for the weights of a column: they must become Ratio times what they were, and
// the intercept take up what they were times Shift, for no score to change; and of the metric, which
// has been gathered in other units, a share is to be kept.
type Move struct{ Ratio, Shift, Keep float64 }

// still is nothing that follows.
var still = Move{1, 0, 1}

// Moves says whether weights move.
func (m Move) Moves() bool { return m.Ratio != 1 || m.Shift != 0 }

// Observe counts a feature, which is z deviations from its column's center, into the
// column's statistics.
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
	case Gathered:
		s.Scaler.Gather(stats, x, z)
	case Spread:
		m = s.observeSpread(column, stats, x, z)
		s.candidate(column, x, stats[model.StatInverse], stats[model.StatCount] == 1)
	}
	return m
}

// Columns returns the columns and values of an event's features as they are learned: with dense
// columns that it leaves out, and behind the first numbers, with hats. They are valid until the next
// event.
func (s *Scaling) Columns(x event.Vec) (columns []uint32, raw []float64, numbers int) {
	x = s.Scaler.Fill(x, &s.Filled)
	if numbers = x.Len(); s.Scaler.Curves != nil {
		x = s.withHats(x)
	}
	return x.Index, x.Value, numbers
}

// DenseState codes what decides which columns are dense.
func (s *Scaling) DenseState(c *coder.Coder) { s.denseFinder.state(c) }

// ReadingsState codes the readings that decide where columns begin.
func (s *Scaling) ReadingsState(c *coder.Coder) {
	s.recent.state(c)
	s.shrinksState(c)
	s.againState(c)
}

// CurvesState codes what the knots are found by; shared says that they are not looked for here.
func (s *Scaling) CurvesState(c *coder.Coder, shared bool) {
	if s.bends() {
		c.Bool(&s.Bent)
	}
	if s.Bending() && !shared {
		s.curves.state(c)
	}
}

// Misfit says whether what DenseState has read does not fit the Scaler.
func (s *Scaling) Misfit() bool {
	return len(s.seen) != len(s.Scaler.Dense) || len(s.moments) != 3*len(s.candidates)
}
