package online

import (
	"blankout/internal/model"
	"blankout/online/mixture"
)

// Forecasts returns the forecast losses on events with missing features, declared and silent.
func (l *Learner) Forecasts() (declared, silent *mixture.Curves) {
	return &l.predictor.mixture.Table.Features, &l.predictor.mixture.Table.SilentFeatures
}

// Pairs returns the features that die together in the last encoded event. MaskLast returns the last point that each of
// them survives in the last drawn mask, or nil if that belongs to another event.
func (l *Learner) Pairs() [][2]int32 { return l.room.in.Pairs }

func (l *Learner) MaskLast() []int8 {
	if !masks(l.events) {
		return nil
	}
	return l.masked.mask.Last
}

// Corrected returns the weight of the experts that correct the levels, for complete events or for events that lack a
// third of their fields.
func (l *Learner) Corrected(lacking bool) float64 {
	if lacking {
		return l.predictor.mixture.Corrected(1 + model.MissingBin(1.0/3))
	}
	return l.predictor.mixture.Corrected(0)
}
