package online_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout/internal/event"
	"blankout/internal/longtest"
	"blankout/internal/model"
)

// priced draws an event whose target grows with the exponential of what is known, and its noise with the target, as
// prices do.
func priced(r *rand.Rand) *event.Example {
	x, z := r.NormFloat64(), r.NormFloat64()
	y := math.Exp(0.5*x + 0.3*z)
	return &event.Example{Target: 1000 * y * (1 + 0.2*r.NormFloat64()), Weight: 1, Features: event.Vec{Index: []uint32{1, 2}, Value: []float64{y, z}}, Field: []uint16{1, 2}}
}

// Nine of ten targets lie in their intervals, small predictions and large ones, and every interval contains its value.
func TestIntervalsByValue(t *testing.T) {
	longtest.NotRaced(t)
	for _, lossName := range []string{"squared", "absolute", "huber:1", "poisson"} {
		l, r := regression(t, lossName, "auto"), rand.New(rand.NewPCG(11, 12))
		type answer struct {
			value float64
			in    bool
		}
		var answers []answer
		for i := range 14000 {
			e := priced(r)
			if lossName == "poisson" {
				e.Target = math.Floor(max(0, e.Target/50))
			}
			if i >= 6000 {
				p := l.Predict(e)
				value, low, high := p.Value, p.Low, p.High
				if !(low <= value && value <= high) {
					t.Fatalf("%s: %v lies outside its interval from %v to %v", lossName, value, low, high)
				}
				answers = append(answers, answer{value, low <= e.Target && e.Target <= high})
			}
			l.Learn(e, nil)
		}
		slices.SortFunc(answers, func(a, b answer) int {
			if a.value < b.value {
				return -1
			}
			return 1
		})
		for q := range 4 {
			in, part := 0.0, answers[q*len(answers)/4:(q+1)*len(answers)/4]
			for _, a := range part {
				if a.in {
					in += 1 / float64(len(part))
				}
			}
			if in < 0.86 || in > 0.94 {
				t.Errorf("%s: quarter %d of the values: coverage %.3f", lossName, q+1, in)
			}
		}
	}
}

// Targets that only grow, in order: no interval excludes its own value, from the second event on.
func TestIntervalContainsItsValue(t *testing.T) {
	for _, lossName := range []string{"squared", "absolute", "quantile:0.9", "huber:1", "poisson"} {
		l := regression(t, lossName, "auto")
		for i := range 400 {
			e := &event.Example{Target: float64(3 * i), Weight: 1, Features: event.Vec{Index: []uint32{1, 2}, Value: []float64{float64(i), 1}}, Field: []uint16{1, 2}}
			m := l.Snapshot().Model()
			value := m.Value(m.Score(e, make([]float64, 1))[0])
			if low, high := m.Interval(value, model.Lacked{}); i > 1 && !(low <= value && value <= high) {
				t.Fatalf("%s, event %d: %v lies outside its interval from %v to %v", lossName, i, value, low, high)
			}
			l.Learn(e, nil)
		}
	}
}
