package online_test

// This file tests how scores become classes: calibration, the positive class and its threshold.

import (
	"math"
	"math/rand/v2"
	"testing"

	"blankout/internal/event"
	"blankout/online"
)

// TestPositive checks that the rarer class of the first 1,000 events becomes positive if the two labels are no known
// pair, and that a restart does not change the choice. A configured positive class must change measures and the meaning
// of the threshold, but no weights or scores.
func TestPositive(t *testing.T) {
	c := online.DefaultConfig()
	c.Noise, c.Threshold, c.CovarianceMaxFields = "none", 0.8, 0
	teach := func(name string, restart int) *learner {
		var counts [2]int
		c := c
		c.Positive = name
		l := start(t, c, event.NewSchema(10, []string{"rare", "usual"}, 2))
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
		if x, y := found.scores(e), l.scores(e); x[0] != y[0] {
			t.Errorf("score %v, want %v", y, x)
		}
	}
	p, q := usual.Report(), rare.Report()
	if p.Positive != "usual" || q.Positive != "rare" || math.Abs(p.Binary.AUC()-q.Binary.AUC()) > 1e-9 || p.Binary.AveragePrecision() < .85 || q.Binary.AveragePrecision() > .7 {
		t.Errorf("%s %v %v, %s %v %v", p.Positive, p.Binary.AUC(), p.Binary.AveragePrecision(), q.Positive, q.Binary.AUC(), q.Binary.AveragePrecision())
	}
	// The threshold .8 is a probability of the positive class.
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

// mislabeled draws an event with a clear class, and flips its label with probability fraction.
func mislabeled(r *rand.Rand, fraction float64) *event.Example {
	x, y := 6*r.Float64()-3, 6*r.Float64()-3
	e := &event.Example{Weight: 1, Features: event.Vec{Index: []uint32{1, 2}, Value: []float64{x, y}}}
	if (x+y > 0) != (r.Float64() < fraction) {
		e.Label = 1
	}
	return e
}

// TestLinkOfWrongLabels checks that calibrate = "auto" learns a link (a function from scores to log-odds) if one label
// in ten is wrong. The link must reduce the loss, the published model must predict the same as the learner, and a
// restart must not change any bits. With "off" there must be no link. The setting must not change any
// weights.
func TestLinkOfWrongLabels(t *testing.T) {
	learners := map[string]*learner{}
	for _, calibrate := range []string{"off", "auto", "on"} {
		c := online.DefaultConfig()
		c.Calibrate, c.Optimizer = calibrate, "adagrad" // the weight of correcting experts depends on the calibration
		l := start(t, c, event.NewSchema(8, []string{"a", "b"}, 2))
		r := rand.New(rand.NewPCG(1, 2))
		for range 12_000 {
			l.Learn(mislabeled(r, 0.1), nil)
		}
		learners[calibrate] = l
	}
	off, auto, on := learners["off"], learners["auto"], learners["on"]
	if off.model().Link != nil || auto.model().Link == nil || on.model().Link == nil {
		t.Fatal("not those that calibrate have a link")
	}
	now, plain := auto.Report(), off.Report()
	a, b := now.Summary(), plain.Summary()
	if !(*a.RecentLogLoss < *b.RecentLogLoss-0.01) || *a.CalibrationError > 0.04 || *b.CalibrationError < 0.06 {
		t.Errorf("recent log-loss %v, without a link %v; calibration error %v", *a.RecentLogLoss, *b.RecentLogLoss, *a.CalibrationError)
	}
	r, m := rand.New(rand.NewPCG(9, 2)), auto.model()
	for range 200 {
		e := mislabeled(r, 0)
		scores := m.Score(e, make([]float64, 1))
		if got, want := m.Decision().Probability(scores[0]), auto.Predict(e).Decision.Probability(scores[0]); got != want {
			t.Fatalf("the model says %v, the learner %v", got, want)
		}
		if other := off.model().Score(e, make([]float64, 1)); other[0] != scores[0] {
			t.Fatalf("weights depend on calibrate: %v and %v", scores[0], other[0])
		}
	}
	again := auto.restored()
	x, y := rand.New(rand.NewPCG(5, 2)), rand.New(rand.NewPCG(5, 2))
	for range 500 {
		auto.Learn(mislabeled(x, 0.1), nil)
		again.Learn(mislabeled(y, 0.1), nil)
	}
	sameState(t, "after a restart", auto.blocks(), again.blocks())
	c := auto.c
	c.Calibrate = "off"
	if auto.restoredWith(c).model().Link != nil {
		t.Error("with calibrate off there is a link")
	}
	// There must be no link either if scores are already log-odds, or if class weights change the scores on purpose.
	clear := func(e *event.Example, r *rand.Rand) *event.Example {
		e.Label = 0
		if x := e.Features.Value; r.Float64() < 1/(1+math.Exp(-x[0]-x[1])) {
			e.Label = 1
		}
		return e
	}
	for name, change := range map[string]func(*online.Config){
		"log-odds": func(c *online.Config) { c.Noise = "none" },
		"weighted": func(c *online.Config) { c.Noise, c.ClassWeight = "none", map[string]float64{"b": 8} },
	} {
		c := online.DefaultConfig()
		change(&c)
		l, r := start(t, c, event.NewSchema(8, []string{"a", "b"}, 2)), rand.New(rand.NewPCG(1, 2))
		for range 6000 {
			l.Learn(clear(mislabeled(r, 0), r), nil)
		}
		if l.model().Link != nil {
			t.Errorf("%s: auto calibrates", name)
		}
	}
}
