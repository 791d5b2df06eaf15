package next

import "blankout/online/probe"

// Forecasts returns what predictions are expected to lose on events that lack features, declared and silent.
func (l *Learner) Forecasts() (declared, silent *probe.Curves) {
	return &l.mixture.Table.Features, &l.mixture.Table.SilentFeatures
}
