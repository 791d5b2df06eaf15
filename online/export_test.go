package online

import (
	"blankout/internal/model"
	"blankout/online/mixture"
)

// Forecasts returns what predictions are expected to lose on events that lack features, declared and silent.
func (l *Learner) Forecasts() (declared, silent *mixture.Curves) {
	return &l.predictor.mixture.Table.Features, &l.predictor.mixture.Table.SilentFeatures
}

// Pairs returns the features that die together of the event that was encoded last, and MaskLast the last point that each
// survives of the mask that was drawn last, nil if that was for another event.
func (l *Learner) Pairs() [][2]int32 { return l.room.in.Pairs }

func (l *Learner) MaskLast() []int8 {
	if !masks(l.events) {
		return nil
	}
	return l.masked.mask.Last
}

// Corrected returns the weight of the experts that correct the levels, on whole events or those that lack a third of their fields.
func (l *Learner) Corrected(lacking bool) float64 {
	if lacking {
		return l.predictor.mixture.Corrected(1 + model.MissingBin(1.0/3))
	}
	return l.predictor.mixture.Corrected(0)
}
