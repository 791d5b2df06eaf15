package calibration_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"blankout/internal/model"
	"blankout/online/calibration"
)

// drawn gives events of two classes whose scores are f and whose second class has the probability p(f).
func drawn(l *calibration.Link, r *rand.Rand, events int, p func(f float64) float64) (own, linked, least float64) {
	for range events {
		f, label := 3*r.NormFloat64(), 0
		q := p(f)
		if r.Float64() < q {
			label = 1
		}
		scores := []float64{f}
		own += model.Decision{}.LogLoss(scores, label)
		linked += model.Decision{Link: l.Latest()}.LogLoss(scores, label)
		if least -= math.Log(q); label == 0 {
			least += math.Log(q) - math.Log(1-q)
		}
		l.Take(scores, 1, label, 1)
	}
	n := float64(events)
	return own / n, linked / n, least / n
}

// A few events do not say that a Link helps, and no event weighs more than one.
func TestLinkIsNotHasty(t *testing.T) {
	l, r := calibration.NewLink(), rand.New(rand.NewPCG(11, 12))
	half := func(float64) float64 { return 0.5 }
	if drawn(&l, r, 450, half); l.Helps() {
		t.Error("450 events are enough")
	}
	if drawn(&l, r, 1000, half); !l.Helps() {
		t.Error("1,450 events are not enough")
	}
	before := model.Decision{Link: l.Latest()}.Probability(3)
	l.Take([]float64{3}, 1, 1, 1e9)
	drawn(&l, r, 64, half)
	if after := (model.Decision{Link: l.Latest()}).Probability(3); after > before+0.05 {
		t.Errorf("one event of a large weight moves a probability from %v to %v", before, after)
	}
}
