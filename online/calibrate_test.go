package online

import (
	"math"
	"testing"

	"blankout/internal/longtest"
)

// The forecast of the error where nothing is missing is of the class that is answered: that of
// the calibrated probability.
func TestForecastOfCalibrated(t *testing.T) {
	longtest.NotRaced(t)
	c := DefaultConfig()
	c.Loss, c.Noise, c.Calibrate, c.Threshold = "hinge", "dropout:0.3", true, 0.8
	l, s := mustNew(t, c, 2), newStream(3, 2)
	for range 20_000 {
		e := s.next()
		e.Weight = 1
		l.Learn(e)
	}
	m := l.Metrics()
	if got, want := m.Served.Error[0], m.Window.Error(); math.Abs(got-want) > 0.02 {
		t.Errorf("a forecast of %v, the error was %v", got, want)
	}
}
