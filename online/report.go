package online

// This file reports: measures, forecasts, alarms and warnings.

import (
	"math"
	"slices"

	"blankout/internal/loss"
	"blankout/internal/measure"
	"blankout/online/mixture"
	"blankout/online/monitor"
	"blankout/online/watch"
)

// Report returns what has been measured and counted so far.
func (l *Learner) Report() Report {
	expected := forecastError(l.predictor.mixture.Table, l.targets != nil)
	r := Report{Report: l.monitors.Report(l.events, expected), Features: l.encoder.Table.Len(), RefreshFailures: l.levels.Failures(), Experts: l.predictor.listed()}
	r.Noise = l.predictor.noise(0)
	r.Level = loss.ShortNoise(r.Noise.String())
	if weights, ranges := l.predictor.mixture.ByRange(); weights != nil {
		for _, i := range weights {
			name := r.Level
			if i > 0 {
				name = l.predictor.noise(ranges[i-1]).String()
			}
			r.LevelsByShare = append(r.LevelsByShare, name)
		}
	}
	r.Forecast = forecast(r.Level, l.predictor.mixture.Table, l.masked.evaluatesGroups(), l.targets != nil)
	if l.targets != nil {
		r.Numbers.Loss = l.loss()
	}
	return r
}

// forecast returns what predictions are expected to lose at each share of missing features, and of groups if these are declared.
func forecast(level string, t *mixture.Table, groups, regression bool) Forecast {
	f := Forecast{Level: level}
	f.Declared, f.Silent = forecastPoints(&t.Features, &t.SilentFeatures, regression)
	if groups {
		f.DeclaredGroups, f.SilentGroups = forecastPoints(&t.Groups, &t.SilentGroups, regression)
	}
	return f
}

// forecastPoints returns the points of two curves, which begin with the same one, of events that lose nothing.
func forecastPoints(declared, silent *mixture.Curves, regression bool) (d, s []ForecastPoint) {
	at := func(c *mixture.Curves, i int) ForecastPoint {
		p := ForecastPoint{Missing: mixture.Missing(i), Error: c.Error.At(i), LogLoss: measure.Defined(c.LogLoss.At(i))}
		if regression {
			p.Error = math.Sqrt(p.Error)
		}
		return p
	}
	d, s = append(d, at(declared, 0)), append(s, at(declared, 0))
	for i := 1; i < mixture.Points; i++ {
		d, s = append(d, at(declared, i)), append(s, at(silent, i))
	}
	return d, s
}

// forecastError is the error that is expected of predictions of classes with nothing more missing, a share; -1 before that is
// known.
func forecastError(t *mixture.Table, regression bool) float64 {
	if e := t.Features.Error.At(0); e == e && !regression {
		return e
	}
	return -1
}

// Alarms returns what the monitors have raised so far; its Latest has no more than those after the first n changes. It is
// cheap to ask for after each batch of events.
func (l *Learner) Alarms(n uint64) Alarms { return Alarms{l.monitors.Alarms(n), l.events} }

// Warnings returns the Warnings that the state gives rise to, in the order of watch.WarningKinds. Settings say how records are
// read; final says that no more is to come, so that few records are no excuse.
func (l *Learner) Warnings(settings Fingerprint, final bool) []watch.Warning {
	return l.counted().Warnings(l.encoder.Schema(), watch.Stream{Events: l.events, Outputs: l.outputs.young.Outputs(), Settings: settings, Final: final})
}

// counted returns what warnings follow from.
func (l *Learner) counted() monitor.Counted {
	s, c := l.encoder.Schema(), l.monitors.Counted()
	c.Others = slices.Concat(c.Others, watch.MixedKinds(&l.encoder.Fields.Kinds, s.Fields), NoRate(l.levels.Noises[0], l.levels.Observed, l.levels.Grouping.Met))
	if l.events > 0 {
		c.Others = append(c.Others, l.config.Undeclared(s)...)
	}
	return c
}

// Warnings is Learner.Warnings of the state, with nothing more to come.
func (s *Snapshot) Warnings(settings Fingerprint) []watch.Warning {
	h := &s.model.Head
	return s.counted.Warnings(h.Schema, watch.Stream{Events: h.Events, Outputs: h.Layout.Outputs, Settings: settings, Final: true})
}

// ByAge returns what predictions have lost by the age of the weights, errors in percent where labels are classes.
func (s *Snapshot) ByAge() []measure.Aged {
	if s.report.Numbers != nil {
		return s.report.ByAge
	}
	return measure.AgedPercent(s.report.ByAge)
}
