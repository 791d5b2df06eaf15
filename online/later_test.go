package online

import (
	"math"
	"slices"
	"testing"

	"blankout"
	"blankout/measure"
)

// An event whose label comes later is measured by the scores of its arrival and learned as
// any other; what it would have been told at last is measured apart.
func TestLearnLater(t *testing.T) {
	learner := func() *Learner {
		l, err := New(DefaultConfig(), blankout.NewSchema(4, []string{"no", "yes"}, 2))
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	event := func(x float64, label int) *blankout.Example {
		return &blankout.Example{Features: blankout.Vec{Index: []uint32{1}, Value: []float64{x}}, Label: label, Weight: 1}
	}
	later, plain := learner(), learner()
	arrival := slices.Clone(later.Score(event(1, blankout.Unlabelled), make([]float64, 1)))
	for i := range 50 {
		for _, l := range []*Learner{later, plain} {
			l.Learn(event(float64(1-2*(i%2)), 1-i%2))
		}
	}
	before := later.Metrics().Total
	var fresh measure.Classes
	later.LearnLater(event(1, 1), arrival, &fresh)
	told := slices.Clone(plain.Learn(event(1, 1)))
	total := later.Metrics().Total
	if got, want := total.LogLoss-before.LogLoss, math.Log1p(math.Exp(-arrival[0])); math.Abs(got-want) > 1e-12 {
		t.Errorf("the progressive log-loss grew by %v, want %v, that of the arrival", got, want)
	}
	if want := math.Log1p(math.Exp(-told[0])); math.Abs(fresh.LogLoss-want) > 1e-12 || fresh.Weight != 1 || fresh.LogLoss >= total.LogLoss-before.LogLoss {
		t.Errorf("at learning %+v, want a log-loss of %v", fresh, want)
	}
	if a, b := later.Score(event(1, 1), make([]float64, 1))[0], plain.Score(event(1, 1), make([]float64, 1))[0]; a != b {
		t.Errorf("learned later it scores %v, at once %v", a, b)
	}
}

// Where the label is a number the progressive measures have the error of what the event was
// told when it came, and the other is measured apart.
func TestLearnNumberLater(t *testing.T) {
	c := DefaultConfig()
	c.Loss = "squared"
	later, plain := numberLearner(t, c), numberLearner(t, c)
	events := numbersOf(300, later.unit.Target, 1)
	last := events[299]
	arrival := slices.Clone(later.Score(last, make([]float64, 1)))
	for _, e := range events[:299] {
		later.Learn(e)
		plain.Learn(e)
	}
	before := later.Metrics().Numbers.Total.Absolute
	var fresh measure.Classes
	later.LearnLater(last, arrival, &fresh)
	told := plain.Learn(last)[0]
	if got, want := later.Metrics().Numbers.Total.Absolute-before, math.Abs(last.Target-arrival[0]); math.Abs(got-want) > 1e-6*want {
		t.Errorf("the progressive absolute error grew by %v, want %v, that of the arrival", got, want)
	}
	if want := math.Abs(last.Target - told); math.Abs(fresh.Wrong-want) > 1e-6 || fresh.Weight != 1 || want > 0.5*math.Abs(last.Target-arrival[0]) {
		t.Errorf("at learning %+v, want an error of %v", fresh, want)
	}
	if a, b := later.Score(last, make([]float64, 1))[0], plain.Score(last, make([]float64, 1))[0]; a != b {
		t.Errorf("learned later it scores %v, at once %v", a, b)
	}
}
