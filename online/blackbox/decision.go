package blackbox

// This file tests what scores mean: calibration, the positive class and its threshold.

import (
	"blankout/internal/event"
	"blankout/online"
	"blankout/online/synthetic"
	"math"
	"math/rand/v2"
	"testing"
)

// Of two classes that are no usual pair the rarer of the first 1,000 is the positive one, a
// restart keeps it, and what is named changes measures and the side of the threshold, and
// neither weights nor scores.
func testPositive(t *testing.T, mk Maker) {
	c := online.DefaultConfig()
	c.Noise, c.Threshold, c.CovarianceMaxFields = "none", 0.8, 0
	teach := func(name string, restart int) *learner {
		var counts [2]int
		c := c
		c.Positive = name
		l := mk.start(t, c, event.NewSchema(10, []string{"rare", "usual"}, 2))
		r := rand.New(rand.NewPCG(1, 2))
		for i := range 1500 {
			if i == restart {
				l = l.restored()
			}
			if got := l.Report().Positive; name == "" && (got == "rare") != (i >= 1000 || counts[0] < counts[1]) {
				t.Fatalf("positive before event %d: %q", i, got)
			}
			e := &event.Example{Label: 1, Weight: 1, Features: event.Vec{Index: []uint32{1, 2}, Value: []float64{r.NormFloat64(), 1}}}
			if r.Float64() < .2 {
				e.Label, e.Features.Value[0] = 0, e.Features.Value[0]+1
			}
			l.Learn(e, nil)
			counts[e.Label]++
		}
		return l
	}
	found, again, usual, rare := teach("", -1), teach("", 600), teach("usual", -1), teach("rare", -1)
	a, b := found.Report().Binary, again.Report().Binary
	if *a != *b {
		t.Error("a restart changes the measures")
	}
	e := &event.Example{Label: 1, Weight: 1, Features: event.Vec{Index: []uint32{1, 2}, Value: []float64{.7, 1}}}
	for _, l := range []*learner{again, usual, rare} {
		if x, y := predict(found.box, e), predict(l.box, e); x[0] != y[0] {
			t.Errorf("score %v, want %v", y, x)
		}
	}
	p, q := usual.Report(), rare.Report()
	if p.Positive != "usual" || q.Positive != "rare" || math.Abs(p.Binary.AUC()-q.Binary.AUC()) > 1e-9 || p.Binary.AveragePrecision() < .85 || q.Binary.AveragePrecision() > .7 {
		t.Errorf("%s %v %v, %s %v %v", p.Positive, p.Binary.AUC(), p.Binary.AveragePrecision(), q.Positive, q.Binary.AUC(), q.Binary.AveragePrecision())
	}
	// The threshold of .8 is that of the positive class.
	for _, l := range []*learner{usual, rare} {
		h, positiveName := l.model(), l.Report().Positive
		for _, f := range []float64{-2, -1, 0, 1, 2} {
			scores := []float64{f}
			probability := h.Probabilities(scores, make([]float64, 2))[h.Schema.PositiveClass(positiveName)]
			if positive := h.Predict(scores) == h.Schema.PositiveClass(positiveName); positive != (probability > .8) || h.Predict(scores) != l.Predict(e).Decision.Predict(scores) {
				t.Errorf("positive %s: at %v it has probability %v and is called so: %v", positiveName, f, probability, positive)
			}
		}
	}
}

// The forecast of the error where nothing is missing is of the class that is answered: that of
// the calibrated probability.
func testForecastOfCalibrated(t *testing.T, mk Maker) {
	c := online.DefaultConfig()
	c.Loss, c.Noise, c.Calibrate, c.Threshold = "hinge", "dropout:0.3", "on", 0.8
	l, s := mk.stream(t, c, 2), synthetic.NewStream(3, 2)
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
