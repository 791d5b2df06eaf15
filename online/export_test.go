package online

import (
	"blankout/online/mixture"
)

// Forecasts returns the forecast errors, by point, of events with declared missing and with silently missing features.
func (l *Learner) Forecasts() (declared, silent [mixture.Points]float64) {
	f := &l.predictor.mixture.Forecasts
	for i := range mixture.Points {
		declared[i], _ = f.At(&f.Features, i, 0)
		silent[i], _ = f.At(&f.SilentFeatures, i, 0)
	}
	return declared, silent
}

// Pairs returns the pairs of features that are dropped together in the last encoded event. MaskLast returns, for each
// feature, the last point of the mask at which the feature is present. It returns nil if no mask was drawn for the last
// event.
func (l *Learner) Pairs() [][2]int32 { return l.room.in.Pairs }

func (l *Learner) MaskLast() []int8 {
	if !masks(l.events, l.predictor.imputer.Columns()) {
		return nil
	}
	return l.masked.mask.Last
}

// KeepsCosines returns the steps after which a part of the cosines that an earlier event had is still in effect, although
// no event with such a part is current. It is for a Learner whose cosines have no part in complete events.
func (l *Learner) KeepsCosines() (steps []string) {
	x, in, by := &l.predictor.cosines, &l.room.in, &mixture.Event{Outputs: 1, Active: 1, Label: 1}
	for step, f := range map[string]func(){
		"an event":               func() { l.predictor.readCosines(in, false, &imputed{}) },
		"a masked copy":          func() { l.masked.readMaskedCosines(in, &labeled{}, 0) },
		"a number of outputs":    func() { x.setOutputs(len(x.sum)) },
		"a comparison of losses": func() { x.observe(0, x.base, by) },
	} {
		x.some = true
		if f(); x.part() != nil {
			steps = append(steps, step)
		}
	}
	return steps
}
