package online_test

import (
	"math"
	"testing"

	"blankout/internal/longtest"
	"blankout/online"
	"blankout/online/synthetic"
)

// The forecast of the error where nothing is missing is of the class that is answered: that of
// the calibrated probability.
func TestForecastOfCalibrated(t *testing.T) {
	longtest.NotRaced(t)
	c := online.DefaultConfig()
	c.Loss, c.Noise, c.Calibrate, c.Threshold = "hinge", "dropout:0.3", "on", 0.8
	l, s := mustNew(t, c, 2), synthetic.NewStream(3, 2)
	for range 20_000 {
		e := s.Next()
		e.Weight = 1
		l.Learn(e, nil)
	}
	m := l.Report()
	if got, want := m.Forecast.Declared[0].Error, m.Window.Error(); math.Abs(got-want) > 0.02 {
		t.Errorf("a forecast of %v, the error was %v", got, want)
	}
}
