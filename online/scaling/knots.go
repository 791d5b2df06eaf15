package scaling

// This file finds new knots for a number after its column restarts.

import (
	"maps"
	"math"
	"slices"

	"blankout/internal/coder"
	"blankout/internal/model"
)

// knotReadings is the number of readings from which the new knots of a column are computed, as quantiles.
const knotReadings = 256

// findKnotsAgain starts to gather readings for new knots of a column. The weights of its spline columns do not change,
// and neither does the weight of the column.
func (s *Scaling) findKnotsAgain(column uint32) {
	c := s.Scaler.Splines
	if i := c.Of(column); i < 0 || model.IsPresence(c.Knots[i]) {
		return
	}
	if s.again == nil {
		s.again = map[uint32][]float64{}
	}
	s.again[column] = make([]float64, 0, knotReadings)
}

// readAgain gathers a reading for new knots. z is the distance of the reading from the center of its column, in
// standard deviations.
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
	c := s.Scaler.Splines
	i := c.Of(column)
	knots := model.KnotsOf(readings, len(c.Knots[i]))
	if len(knots) < 2 {
		return
	}
	for len(knots) < len(c.Knots[i]) { // keeps the number of spline columns
		last := len(knots) - 1
		knots = append(knots, 2*knots[last]-knots[last-1])
	}
	all := slices.Clone(c.Knots) // snapshots share the old knots
	all[i] = knots
	s.Scaler.Splines = &model.Splines{Columns: c.Columns, Knots: all}
}

// againState encodes or decodes the readings that are gathered for new knots, in ascending order of columns.
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
