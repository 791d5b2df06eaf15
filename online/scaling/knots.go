package scaling

// This file finds the knots of a number again where its column begins again.

import (
	"maps"
	"math"
	"slices"

	"blankout/internal/coder"
	"blankout/internal/model"
)

// knotReadings is the number of readings that new knots of a column are the quantiles of.
const knotReadings = 256

// findKnotsAgain has the knots of a column found again from its next readings. The weights of its hats stay, as
// that of the column itself does.
func (s *Scaling) findKnotsAgain(column uint32) {
	c := s.Scaler.Curves
	if i := c.Of(column); i < 0 || isPresence(c.Knots[i]) {
		return
	}
	if s.again == nil {
		s.again = map[uint32][]float64{}
	}
	s.again[column] = make([]float64, 0, knotReadings)
}

// readAgain takes a reading, z deviations from its column's center, of a column whose knots are being found again.
func (s *Scaling) readAgain(column uint32, x, z float64) {
	readings, wanted := s.again[column]
	if !wanted || math.Abs(z) > model.ScalerClip {
		return
	}
	if readings = append(readings, x); len(readings) < knotReadings {
		s.again[column] = readings
		return
	}
	delete(s.again, column)
	slices.Sort(readings)
	c := s.Scaler.Curves
	i := c.Of(column)
	knots := model.KnotsOf(readings, len(c.Knots[i]))
	if len(knots) < 2 {
		return
	}
	for len(knots) < len(c.Knots[i]) { // each hat keeps its column
		last := len(knots) - 1
		knots = append(knots, 2*knots[last]-knots[last-1])
	}
	all := slices.Clone(c.Knots) // snapshots hold the old ones
	all[i] = knots
	s.Scaler.Curves = &model.Curves{Columns: c.Columns, Knots: all}
}

// againState walks the readings of columns whose knots are being found again.
func (s *Scaling) againState(c *coder.Coder) {
	columns := slices.Sorted(maps.Keys(s.again))
	if c.Uint32s(&columns); c.Decode {
		s.again = map[uint32][]float64{}
	}
	for _, column := range columns {
		readings := s.again[column]
		c.Floats(&readings)
		c.Failed = c.Failed || len(readings) >= knotReadings
		s.again[column] = readings
	}
}
