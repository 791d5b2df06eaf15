package online

// This file forecasts the error at each share of missing features in closed form, where there is
// one: for two classes and for numbers, where nothing is filled in.

import (
	"blankout/online/mixture"
)

// ForecastPoints is the number of deletion rates of a Forecast.
const ForecastPoints = mixture.Points

// ForecastMissing returns the i-th deletion rate of a Forecast.
func ForecastMissing(i int) float64 { return mixture.Missing(i) }

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
