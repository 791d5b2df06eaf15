package online_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"blankout/internal/event"
	"blankout/online"
)

// Of two classes that are no usual pair the rarer of the first 1,000 is the positive one, a
// restart keeps it, and what is named changes measures and the side of the threshold, and
// neither weights nor scores.
func TestPositive(t *testing.T) {
	c := online.DefaultConfig()
	c.Noise, c.Threshold, c.CovarianceMaxFields = "none", 0.8, 0
	teach := func(name string, restart int) *online.Learner {
		var counts [2]int
		c := c
		c.Positive = name
		l, err := online.New(c, event.NewSchema(10, []string{"rare", "usual"}, 2))
		if err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewPCG(1, 2))
		for i := range 1500 {
			if i == restart {
				blocks, err := l.Snapshot().Blocks()
				if err != nil {
					t.Fatal(err)
				}
				if l, err = online.Restore(c, blocks); err != nil {
					t.Fatal(err)
				}
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
	for _, l := range []*online.Learner{again, usual, rare} {
		if x, y := scoresOf(found, e), scoresOf(l, e); x[0] != y[0] {
			t.Errorf("score %v, want %v", y, x)
		}
	}
	p, q := usual.Report(), rare.Report()
	if p.Positive != "usual" || q.Positive != "rare" || math.Abs(p.Binary.AUC()-q.Binary.AUC()) > 1e-9 || p.Binary.AveragePrecision() < .85 || q.Binary.AveragePrecision() > .7 {
		t.Errorf("%s %v %v, %s %v %v", p.Positive, p.Binary.AUC(), p.Binary.AveragePrecision(), q.Positive, q.Binary.AUC(), q.Binary.AveragePrecision())
	}
	// The threshold of .8 is that of the positive class.
	for _, l := range []*online.Learner{usual, rare} {
		h, positiveName := l.Snapshot().Model(), l.Report().Positive
		for _, f := range []float64{-2, -1, 0, 1, 2} {
			scores := []float64{f}
			probability := h.Probabilities(scores, make([]float64, 2))[h.Schema.PositiveClass(positiveName)]
			if positive := h.Predict(scores) == h.Schema.PositiveClass(positiveName); positive != (probability > .8) || h.Predict(scores) != l.Predict(e).Decision.Predict(scores) {
				t.Errorf("positive %s: at %v it has probability %v and is called so: %v", positiveName, f, probability, positive)
			}
		}
	}
}
