package batch

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"blankout/internal/loss"
)

// TestErfResistsWrongLabels solves the problem of Long and Servedio (2010): examples with a large margin, pullers and
// penalizers, with 10 % wrong labels. No convex loss classifies all correctly labeled examples correctly. The erf loss
// and t-logistic regression must do so (Ding & Vishwanathan 2010, section 6).
func TestErfResistsWrongLabels(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 1))
	var x [][]float64
	var y, clean []float64
	for i := range 2000 {
		label := float64(2*r.IntN(2) - 1)
		row := make([]float64, 21)
		switch kind := r.IntN(4); kind {
		case 0: // large margin
			for d := range row {
				row[d] = label
			}
		case 1: // pullers
			for d := range row {
				row[d] = label
				if d >= 11 {
					row[d] = -label
				}
			}
		default: // penalizers: 5 of the first 11 features and 6 of the other 10 agree with the label
			for d := range row {
				row[d] = -label
			}
			for _, d := range r.Perm(11)[:5] {
				row[d] = label
			}
			for _, d := range r.Perm(10)[:6] {
				row[11+d] = label
			}
		}
		x, clean = append(x, row), append(clean, label)
		if i%10 == 0 {
			label = -label
		}
		y = append(y, label)
	}
	d := denseData(t, x, y)
	wrong := func(l loss.Loss) float64 {
		o := newExpected(t, d, y, l, nil, 10, NoIntercept)
		fit := solve(t, o, Options{Tol: 1e-6, Starts: 3, Seed: 1})
		n := 0.0
		for i, row := range x {
			if Dot(fit.W, row)*clean[i] <= 0 {
				n++
			}
		}
		return 100 * n / float64(len(x))
	}
	convex, erf := wrong(loss.LogisticChen{}), wrong(loss.Erf{})
	t.Logf("wrong on clean labels: logistic %.2f %%, erf %.2f %%", convex, erf)
	if !(erf < 1 && convex > 20) {
		t.Errorf("wrong on clean labels: logistic %.2f %%, erf %.2f %%", convex, erf)
	}
}

// TestStarts checks that more random starts never give a worse result. Equal starts must give the same point. A convex
// objective must be solved only once.
func TestStarts(t *testing.T) {
	r := rand.New(rand.NewPCG(12, 1))
	var x [][]float64
	var y []float64
	for range 80 {
		row := []float64{r.NormFloat64(), r.NormFloat64(), r.NormFloat64()}
		x, y = append(x, row), append(y, math.Copysign(1, row[0]*row[1]+0.3*row[2]))
	}
	d := denseData(t, x, y)
	for _, l := range []loss.Loss{loss.Erf{}, loss.LogisticChen{}} {
		last := math.Inf(1)
		for _, starts := range []int{0, 2, 8} {
			opt := Options{Tol: 1e-8, Starts: starts, Seed: 4}
			a := solve(t, newExpected(t, d, y, l, nil, 5, FreeIntercept), opt)
			b, err := Solve(context.Background(), newExpected(t, d, y, l, nil, 5, FreeIntercept), opt)
			if err != nil || b.Objective != a.Objective || b.Iterations != a.Iterations {
				t.Errorf("%v: %d starts end at %v after %d iterations, again at %v after %d (%v)", l, starts, a.Objective, a.Iterations, b.Objective, b.Iterations, err)
			}
			if a.Objective > last {
				t.Errorf("%v: %d starts end at %v, fewer at %v", l, starts, a.Objective, last)
			}
			if l == (loss.LogisticChen{}) && starts > 0 && a.Objective != last {
				t.Errorf("%v: %d starts change the only minimum", l, starts)
			}
			last = a.Objective
		}
	}
}
