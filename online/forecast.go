package online

// This file forecasts errors with missing fields, and chooses the default noise levels.

import (
	"math"

	"blankout/internal/event"
	"blankout/internal/model"
	"blankout/online/mixture"
)

// ForecastPoints is the number of deletion rates of a Forecast.
const ForecastPoints = mixture.Points

// died is a copy of a labeled event in which features have died silently.
type died struct {
	event.Example
	curve  *mixture.Curve // nil if the event has no such copy
	point  int            // fraction of the features that have died, see mixture.Missing
	losses mixture.Losses // of the prediction of the copy
	dead   *model.Dead
}

// die makes such a copy of an event, in which up to 70 % of the features have died: copies with more would teach the
// Doubter to believe them. It must be called before the event is encoded.
func (l *Learner) die(e *event.Example) {
	m, d, in := &l.masked, &l.room.died, &l.room.in
	f := &l.predictor.mixture.Forecasts
	d.curve = &f.SilentFeatures
	groups := m.evaluatesGroups() && f.SilentGroups.Masks() < f.SilentFeatures.Masks()
	if groups {
		d.curve = &f.SilentGroups
	}
	number := d.curve.Masks()
	d.point = 1 + 2*int(number%4)
	l.encoder.Read(e, l.events, in)
	in = m.draw(&labeled{Example: e, number: l.events, in: in}, number, groups)
	m.dead = m.dead[:0]
	for _, last := range m.mask.Last {
		m.dead = append(m.dead, int(last) < d.point)
	}
	d.dead = l.encoder.Dead()
	losses := model.Losses{Fields: l.encoder.Schema().Fields, Dead: d.dead, Center: func(uint32) float64 { return 0 }}
	losses.Lose(model.LossDead, e, 0, in.Columns[:in.Features()], m.dead, &d.Example)
}

// forecast takes the losses of the prediction of a labeled event.
func (l *Learner) forecast(whole mixture.Losses) {
	f, d := &l.predictor.mixture.Forecasts, &l.room.died
	f.Whole.Add(l.events, whole)
	l.room.labeled.whole = whole
	if d.curve != nil {
		copies := unknown
		copies[d.point] = d.losses
		d.curve.Add(l.events, whole, &copies)
	}
}

// unknown has the losses of masked copies that have not been predicted.
var unknown = func() (none [mixture.Points]mixture.Losses) {
	for point := range none {
		none[point] = mixture.Losses{math.NaN(), math.NaN()}
	}
	return none
}()

// losses returns the losses of scores, in the unit of the stream, for a labeled event.
func (l *Learner) losses(e *event.Example, scores []float64) mixture.Losses {
	switch t := l.targets; {
	case t == nil:
		return lossesOf(e, l.monitors.Decision().Judge(scores, e.Label))
	case !l.monitors.Measures.Known():
		return mixture.Losses{math.NaN(), math.NaN()}
	default:
		return squareOf(e, t.unit.ValueOf(scores[0]))
	}
}

// lossesOf returns the losses of a classification.
func lossesOf(e *event.Example, j model.Judged) mixture.Losses {
	if j.Class != e.Label {
		return mixture.Losses{1, j.LogLoss}
	}
	return mixture.Losses{0, j.LogLoss}
}

// squareOf returns the losses of a predicted value.
func squareOf(e *event.Example, value float64) mixture.Losses {
	d := e.Target - value
	return mixture.Losses{d * d, 0}
}

// Forecast is the expected error of predictions at each deletion rate, see ForecastMissing.
type Forecast struct {
	Level string `json:"noise_level"`
	// Declared is for features that are declared missing, so that the missing policies apply. Silent is for features
	// that are missing silently: a number has its neutral value, and other features are absent.
	Declared []ForecastPoint `json:"declared"`
	Silent   []ForecastPoint `json:"silent"`
	// The errors by fraction of missing groups, if there are named groups or if a noise level drops groups.
	DeclaredGroups []ForecastPoint `json:"declared_groups,omitempty"`
	SilentGroups   []ForecastPoint `json:"silent_groups,omitempty"`
}

// ForecastPoint is the expected error at one deletion rate.
type ForecastPoint struct {
	Missing float64  `json:"missing"`
	Error   float64  `json:"error"`              // root mean squared error for regression; NaN before the first sample
	LogLoss *float64 `json:"log_loss,omitempty"` // in nats; nil for regression, and before the first sample
	// Deviation is the standard error of Error: two of three forecasts are less than that away from the error.
	Deviation float64 `json:"deviation"`
}

// noiseLevels returns the noise levels (dropout rates) of features and of groups for the noise "auto". If levels are
// configured, it returns these. The default is three levels: none, light and heavy. ExpectedMissing replaces the heavy
// level if it is 0.5 or more, else the light level. If groups are expected to be missing, there are two levels of
// features and two levels of groups.
func (c Config) noiseLevels() (features, groups []float64) {
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

// leastExpected is the smallest expected missing fraction for which there is a separate noise level.
const leastExpected = 0.05
