package deltas

import (
	"math"
	"math/rand/v2"
	"testing"

	"blankout/internal/model"
)

// TestMergeConverts checks that weight changes that were learned with another center and scale change each score by the
// same amount after conversion. Changes without a scale must have no effect.
func TestMergeConverts(t *testing.T) {
	s := model.Scaler{Mode: model.StandardizeAuto}
	stats := []float64{40, 21, 300, 20, 0.5}[:model.ScalerWidth]
	const there, scale, u = 18.0, 5.0, 0.3
	v := make([]float64, Parts+2)
	v[flags], v[center], v[inverse], v[Parts], v[mean] = hasForce|hasMoments, there, 1/scale, u, 20
	m := Merge(stats, v, &s)
	for _, x := range []float64{15, 20, 23} {
		if want, got := u*(x-there)/scale, m.Factor*u*s.Apply(stats, x)+m.Shift*u; math.Abs(got-want) > 1e-12 {
			t.Errorf("the score at %v changes by %v, want %v", x, got, want)
		}
	}
	if v[inverse] = 0; Merge(stats, v, &s).Factor != 0 {
		t.Error("a slope is made of nothing")
	}
}

// TestMergeMoments checks that merged statistics equal the statistics of all readings. If the scale in effect changes,
// also because another learner has seen a larger value, Move must keep the scores.
func TestMergeMoments(t *testing.T) {
	s, r := model.Scaler{Mode: model.StandardizeAuto}, rand.New(rand.NewPCG(1, 2))
	var all []float64
	stats, w, b, moved := make([]float64, model.ScalerWidth), 0.4, 0.0, false
	for part := range 30 {
		v := make([]float64, Parts+2)
		n := 20 + r.IntN(30)
		var own []float64
		for range n {
			own = append(own, 5+3*r.NormFloat64()+float64(part)/10)
		}
		all = append(all, own...)
		mu, m2 := model.Moments(own)
		v[Count], v[flags], v[mean], v[squares] = float64(n), hasMoments, mu, m2
		if part == 0 {
			v[flags], v[center], v[inverse] = hasMoments|hasForce, mu, 1/math.Sqrt(m2/float64(n))
		}
		before := w*s.Apply(stats, 6) + b
		m := Merge(stats, v, &s)
		w, b = w*m.Move.Ratio, b+w*m.Move.Shift
		if after := w*s.Apply(stats, 6) + b; part > 0 && math.Abs(after-before) > 1e-9 {
			t.Errorf("part %d: a score of %v has become %v", part, before, after)
		}
		moved = moved || part > 0 && m.Move.Moves()
	}
	mu, m2 := model.Moments(all)
	if stats[model.StatCount] != float64(len(all)) || math.Abs(stats[model.StatMean]-mu) > 1e-9 || math.Abs(stats[model.StatSquares]-m2) > 1e-9*m2 || !moved {
		t.Errorf("%v, want %v and %v of %d", stats, mu, m2, len(all))
	}
	divided, v := []float64{9, 0, 0, 0, 0.5}, make([]float64, Parts+2)
	v[flags], v[inverse], v[Count] = hasForce, 0.125, 1
	if m := Merge(divided, v, &s); m.Move.Ratio != 4 || divided[model.StatInverse] != 0.125 || m.Factor != 1 {
		t.Errorf("%+v, %v", m, divided)
	}
}
