package online

// This file forecasts the error at each share of missing features in closed form, where there is
// one: for two classes and for numbers, where nothing is filled in.

import (
	"math"

	"blankout/internal/loss"
	"blankout/internal/measure"
	"blankout/internal/model"
	"blankout/online/probe"
	"blankout/online/rows"
)

// ForecastPoints is the number of deletion rates of a Forecast.
const ForecastPoints = probe.Points

// ForecastMissing returns the i-th deletion rate of a Forecast.
func ForecastMissing(i int) float64 { return probe.Missing(i) }

// Forecast is the expected error of the predictions at each deletion rate of ForecastMissing.
type Forecast struct {
	Level string `json:"noise_level"`
	// Declared is that of features that are declared missing, which the missing policy answers, as far as a record can say
	// so; Silent that of features that die silently: a number reads its neutral value, everything else is not sent.
	Declared []ForecastPoint `json:"declared"`
	Silent   []ForecastPoint `json:"silent"`
	// These are the same by the fraction of groups that die, where groups are named or the noise is of groups.
	DeclaredGroups []ForecastPoint `json:"declared_groups,omitempty"`
	SilentGroups   []ForecastPoint `json:"silent_groups,omitempty"`
}

// ForecastPoint is a Forecast at one deletion rate.
type ForecastPoint struct {
	Missing float64  `json:"missing"`
	Error   float64  `json:"error"`              // of regression its root mean square; NaN before the first sample
	LogLoss *float64 `json:"log_loss,omitempty"` // in nats; nil of regression, and before the first sample
}

// The events whose error is forecast in closed form: all of the first ones, then every n-th.
const forecastFirst, forecastEvery = 1000, 4

// fewFeatures is up to how many features masks are drawn for two classes, too.
const fewFeatures = 32

// served returns the forecast of what is answered.
func (l *answering) served() Forecast {
	f := Forecast{Level: loss.ShortNoise(l.levels[l.chosen].noise.String())}
	s := l.shares
	f.Declared, f.Silent = l.forecastPoints(&s.Features, &s.SilentFeatures)
	if l.grouped() || l.filling.grouping.Declared() {
		f.DeclaredGroups, f.SilentGroups = l.forecastPoints(&s.Groups, &s.SilentGroups)
	}
	return f
}

// forecastPoints returns the points of two curves, which begin with the same one, of events that lose nothing.
func (l *answering) forecastPoints(declared, silent *probe.Curves) (d, s []ForecastPoint) {
	at := func(c *probe.Curves, i int) ForecastPoint {
		p := ForecastPoint{Missing: ForecastMissing(i), Error: c.Error.At(i), LogLoss: measure.Defined(c.LogLoss.At(i))}
		if l.set.numbers {
			p.Error = math.Sqrt(p.Error)
		}
		return p
	}
	d, s = append(d, at(declared, 0)), append(s, at(declared, 0))
	for i := 1; i < ForecastPoints; i++ {
		d, s = append(d, at(declared, i)), append(s, at(silent, i))
	}
	return d, s
}

// grouped says whether some level has noise of groups.
func (l *bank) grouped() bool { return l.groups != nil && l.groups.Grouped }

// sampled says whether masks forecast the error at a point of the event at hand, which then lacks
// k: where there are more than two classes, or so few features that a score is far from
// normal, or something may be filled in.
func (l *answering) sampled(k model.Lack) bool {
	if l.k > 1 || !l.set.numbers && l.fields.Named && len(l.features()) <= fewFeatures {
		return true
	}
	return l.filling.Covariance != nil && k.Some() && l.shares.InForce[probe.Range(k)].Rules[2] > 0
}

// forecastExactly adds the event at hand, of one output, to the forecast at the points that are
// known in closed form. A share d of the features that dies leaves the score a mean of s (1-d) g + b
// and a variance of s^2 d (1-d) sum w^2 x^2, where s is the factor of survivors. Where s depends on how many
// have died, a feature's death also takes a share a, see Missing.Growth, of the intercept's weight
// b/s against what is left: of b/s + sum w x the variance is then d (1-d) sum (w x + a b/s)^2.
func (l *answering) forecastExactly() {
	if l.events > forecastFirst && l.events%forecastEvery != 0 {
		return
	}
	curve := &l.shares.Features.Error
	curve.Add(0, l.judge.Wrong(l.told()))
	lack := l.fields.All(l.schema.Fields)
	y, n := rows.Y(l.judge.Label, 0, 1), float64(len(l.features()))
	cut := 0.0
	if !l.set.numbers {
		cut = l.decision().Cut()
	}
	var of []float64 // the mixture that s is of
	var s spread
	for point := 1; point < ForecastPoints; point++ {
		k := lack.Deleted(ForecastMissing(point))
		if l.sampled(k) {
			continue
		}
		if mix := l.mixed(probe.Range(k)); of == nil || &mix[0] != &of[0] {
			of, s = mix, l.spread(mix)
		}
		if l.set.numbers {
			curve.Add(point, l.unit.ExpectedSquare(l.judge.Raw, ForecastMissing(point), s.b, s.g, s.q, s.terms))
			continue
		}
		scale, growth := l.fields.Missing.Scale(k), 0.0
		if !k.Some() {
			scale = l.fields.Scale
		} else if k.Silent == 0 {
			growth = l.fields.Missing.Growth(k) / scale
		}
		b, q := y*(s.b-cut), s.q
		if growth != 0 {
			ab := growth * y * b
			q += ab * (2*s.g + n*ab)
		}
		curve.Add(point, probe.Normal(point, y*s.g, b/scale, q))
	}
}

// spread is of a score the features' part g, the intercept b, and the sum of squares q of the
// features' terms; of a count also what its moments are made of.
type spread struct {
	g, b, q float64
	terms   []float64
}

// spread returns that of mixed levels, of the event at hand.
func (l *answering) spread(mix []float64) (s spread) {
	l.sumTerms()
	for i, row := range l.features() {
		w, lag, x := l.weights(row), l.lags(row), l.now.step.X[i]
		sum := 0.0
		for v := range l.levels {
			if share := mix[v]; share != 0 {
				sum += share * (w[v] + l.levels[v].LagShare()*lag[v])
			}
		}
		if sum *= x; len(mix) > len(l.levels) {
			sum += mix[len(l.levels)] * l.second.terms(i)[0]
		}
		s.g, s.q = s.g+sum, s.q+sum*sum
		if l.unit.Target == loss.Count {
			s.terms = append(s.terms, loss.Exp(min(sum, 100)))
		}
	}
	var intercept [1]float64
	l.interceptsOf(mix, intercept[:])
	s.b = intercept[0]
	return s
}

// errorForecast is the forecast with nothing more missing, -1 before there is one.
func (l *answering) errorForecast() float64 {
	if e := l.shares.Features.Error.At(0); e == e {
		return e
	}
	return -1
}

// bank returns the levels of features and of groups that auto learns. Levels that are listed come first. Without them
// there are no noise, a light and a heavy one; ExpectedMissing takes the place of the heavy one from 0.5 on, else of the
// light one. Who expects groups to be missing has two levels of features and two of groups.
func (c Config) bank() (features, groups []float64) {
	light, heavy := 0.3, 0.7
	switch d := c.ExpectedMissing; {
	case c.Levels != nil:
		return c.Levels, c.GroupLevels
	case len(c.GroupLevels) == 0 && c.ExpectedMissingGroups > 0:
		return []float64{0, 0.3}, []float64{0.3, 0.5}
	case d >= 0.5:
		heavy = d
	case d >= leastExpected:
		light = d
	}
	return []float64{0, light, heavy}, c.GroupLevels
}

// leastExpected is the least share of features that a level is made for.
const leastExpected = 0.05
