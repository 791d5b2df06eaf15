package next

import "blankout/online/probe"

// Forecasts returns what predictions are expected to lose on events that lack features, declared and silent.
func (l *Learner) Forecasts() (declared, silent *probe.Curves) {
	return &l.mixture.Table.Features, &l.mixture.Table.SilentFeatures
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
