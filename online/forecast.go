package online

// This file forecasts errors with missing fields, and chooses the default noise levels.

import (
	"blankout/online/mixture"
)

// ForecastPoints is the number of deletion rates of a Forecast.
const ForecastPoints = mixture.Points

// ForecastMissing returns the i-th deletion rate of a Forecast.
func ForecastMissing(i int) float64 { return mixture.Missing(i) }

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
