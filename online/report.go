package online

// This file reports measures, forecasts, alarms and warnings.

import (
	"math"
	"slices"

	"blankout/internal/loss"
	"blankout/internal/measure"
	"blankout/internal/model"
	"blankout/online/health"
	"blankout/online/mixture"
)

// Report returns all measures and counts so far.
func (l *Learner) Report() Report {
	expected := forecastError(l.predictor.mixture, l.targets != nil)
	r := Report{Report: l.monitors.Report(l.events, expected), Features: l.encoder.Table.Features(), Rows: l.encoder.Table.Len(), RefreshFailures: l.levels.Failures(), Experts: l.predictor.listed()}
	if w := l.lastLabel(); w > 0 {
		r.Experts = append(r.Experts, model.Expert{Name: "last label", Weight: w})
	}
	r.Noise = l.predictor.noise(0)
	r.Level = loss.ShortNoise(r.Noise.String())
	if weights, ranges := l.predictor.mixture.ByRange(); weights != nil {
		for _, i := range weights {
			name := r.Level
			if i > 0 {
				name = l.predictor.noise(ranges[i-1]).String()
			}
			r.LevelsByMissing = append(r.LevelsByMissing, name)
		}
	}
	r.Forecast = forecast(r.Level, l.predictor.mixture, l.masked.evaluatesGroups(), l.targets != nil)
	if l.targets != nil {
		r.Numbers.Loss = l.loss()
	}
	return r
}

// forecast returns the expected error at each fraction of missing features. If groups is true, it also returns the
// expected error at each fraction of missing groups. All lists start with the error of complete events.
func forecast(level string, t *mixture.Mixture, groups, regression bool) Forecast {
	points := func(c *mixture.Curve) (out []ForecastPoint) {
		errors, deviations := t.Forecasts.Of(c, 0)
		logLosses, _ := t.Forecasts.Of(c, 1)
		for i := range mixture.Points {
			p := ForecastPoint{Missing: mixture.Missing(i), Error: errors[i], Deviation: deviations[i]}
			if regression {
				p.Error = math.Sqrt(p.Error)
				p.Deviation = min(p.Deviation/(2*p.Error), math.MaxFloat64)
			} else {
				p.Error = min(p.Error, 1)
				p.LogLoss = measure.Defined(logLosses[i])
			}
			out = append(out, p)
		}
		return out
	}
	f := Forecast{Level: level, Declared: points(&t.Features), Silent: points(&t.SilentFeatures)}
	if groups {
		f.DeclaredGroups, f.SilentGroups = points(&t.Groups), points(&t.SilentGroups)
	}
	return f
}

// Alarms returns all alarms so far. Its field Latest has only the field alarms that were raised or ended after the
// first n. Calling Alarms after each batch of events is cheap.
func (l *Learner) Alarms(n uint64) Alarms { return Alarms{l.monitors.Alarms(n), l.events} }

// Warnings returns the warnings about the current state, in the order of health.WarningKinds. settings describes how
// records are read. If final is true, the stream has ended, and there may also be a warning about too few records.
func (l *Learner) Warnings(settings Fingerprint, final bool) []health.Warning {
	return l.counted().Warnings(l.encoder.Schema(), health.Stream{Events: l.events, Outputs: l.outputs.rare.Outputs(), Settings: settings, Final: final})
}

// counted returns the counts from which warnings are computed.
func (l *Learner) counted() health.Counted {
	s, c := l.encoder.Schema(), l.monitors.Counted()
	c.Others = slices.Concat(c.Others, health.MixedKinds(&l.encoder.Fields.Kinds, s.Fields), NoRate(l.levels.Noises[0], l.levels.Observed, l.levels.Grouping.Met), placeholders(l.encoder.Faults(), s))
	if l.events > 0 {
		c.Others = append(c.Others, l.config.Undeclared(s)...)
	}
	return c
}

// Warnings is Learner.Warnings for a stream that has ended.
func (s *Snapshot) Warnings(settings Fingerprint) []health.Warning {
	h := &s.model.Head
	return s.counted.Warnings(h.Schema, health.Stream{Events: h.Events, Outputs: h.Layout.Outputs, Settings: settings, Final: true})
}

// ByAge returns the loss of predictions by the staleness of the weights. For classification, errors are in percent.
func (s *Snapshot) ByAge() []measure.StaleLoss {
	if s.report.Numbers != nil {
		return s.report.ByAge
	}
	return measure.StaleLossPercent(s.report.ByAge)
}
