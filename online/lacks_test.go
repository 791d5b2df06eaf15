package online_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/longtest"
	"blankout/internal/model"
	"blankout/internal/must"
	"blankout/online"
	"blankout/online/health"
)

// lacking learns n events of numeric fields, and returns the Learner with its progressive error and log-loss. draw returns
// the numbers of an event by field, NaN for null, and whether each is left out; and the class.
func lacking(t *testing.T, n, fields int, draw func(r *rand.Rand, put func(field int, x float64)) (label int)) (l *online.Learner, wrong, loss float64) {
	s := event.NewSchema(64, []string{"a", "b", "c"}, 3)
	for i := range fields {
		s.Fields = append(s.Fields, event.Field{Name: fmt.Sprint("n", i+1), Kind: event.Numeric, Column: uint32(i + 1)})
	}
	l = must.Get(online.New(online.DefaultConfig(), s))(t)
	r := rand.New(rand.NewPCG(7, 8))
	for range n {
		e := &event.Example{Weight: 1}
		numbers := map[int]float64{}
		e.Label = draw(r, func(field int, x float64) { numbers[field] = x })
		for field := range fields {
			switch x, some := numbers[field+1]; {
			case some && x == x:
				eventtest.Put(e, uint32(field+1), x, uint16(field+1))
			case some:
				e.Missing = append(e.Missing, uint16(field+1))
			}
		}
		p := l.Predict(e)
		j := p.Decision.Judge(p.Scores, e.Label)
		loss += j.LogLoss / float64(n)
		if j.Class != e.Label {
			wrong += 1 / float64(n)
		}
		l.Learn(e, nil)
	}
	return l, wrong, loss
}

// present reports whether a column has a presence column.
func present(l *online.Learner, column uint32) bool {
	c := l.Snapshot().Model().Scaler.Splines
	return c != nil && c.Of(column) >= 0 && slices.Equal(c.Knots[c.Of(column)], model.Present())
}

// TestLacks checks what null, absent and placeholders mean: null at random is a loss at any fraction, null that tells the
// class is a value, a field that counts is 0 where it is left out, and a placeholder is null. The bounds are near the
// least possible loss.
func TestLacks(t *testing.T) {
	longtest.NotRaced(t)
	null := math.NaN()
	for fraction, bound := range map[float64]float64{0.7: 0.42, 0.45: 0.31} {
		_, _, loss := lacking(t, 8000, 2, func(r *rand.Rand, put func(int, float64)) int {
			x, z := r.NormFloat64(), r.NormFloat64()
			if put(1, x); r.Float64() < fraction {
				put(2, null)
			} else {
				put(2, z)
			}
			return eventtest.Class(x+z > 0)
		})
		must.True(t, loss <= bound, "null in %v of the events: %.4f nats", fraction, loss)
	}
	l, wrong, _ := lacking(t, 4000, 2, func(r *rand.Rand, put func(int, float64)) int {
		label := r.IntN(3)
		if put(1, float64(label)+r.NormFloat64()); label == 2 {
			put(2, 3+r.NormFloat64())
		} else {
			put(2, null)
		}
		return label
	})
	m := l.Snapshot().Model().Missing
	must.True(t, wrong <= 0.29 && slices.Equal(m.NullIsValue, []uint16{2}), "null tells the class: error %.4f, %+v", wrong, m)
	_, wrong, _ = lacking(t, 2000, 6, func(r *rand.Rand, put func(int, float64)) int {
		label := r.IntN(2)
		for i := 1; i <= 3; i++ {
			put(i+3*label, 1)
		}
		return label
	})
	must.True(t, wrong <= 0.01, "fields that are always 1: error %.4f", wrong)
	_, wrong, _ = lacking(t, 4000, 2, func(r *rand.Rand, put func(int, float64)) int { // a rating is no count
		x, stars := r.NormFloat64(), float64(1+r.IntN(5))
		if put(1, x); r.Float64() < 0.4 {
			put(2, stars)
			x += 2 * (stars - 3)
		}
		return eventtest.Class(r.Float64() < 1/(1+math.Exp(-x)))
	})
	must.True(t, wrong <= 0.27, "a rating that most events leave out: error %.4f", wrong)
	l, wrong, _ = lacking(t, 8000, 2, func(r *rand.Rand, put func(int, float64)) int {
		label := r.IntN(2)
		if put(1, 0.5*float64(label)+r.NormFloat64()); r.Float64() < []float64{0.05, 0.35}[label] {
			put(2, null)
		} else {
			put(2, float64(label)+r.NormFloat64())
		}
		return label
	})
	must.True(t, wrong <= 0.275 && present(l, 2), "null in a fifth of the events tells the class: error %.4f", wrong)
	for _, value := range []float64{-999, 9999, math.MaxInt32} {
		l, wrong, loss := lacking(t, 3000, 2, func(r *rand.Rand, put func(int, float64)) int {
			x := r.NormFloat64()
			if put(2, x+r.NormFloat64()); r.IntN(5) == 0 {
				put(1, value)
			} else {
				put(1, x)
			}
			return eventtest.Class(x+0.5*r.NormFloat64() > 0)
		})
		warned := slices.ContainsFunc(l.Warnings(nil, true), func(w health.Warning) bool { return w.Kind == health.WarnPlaceholder })
		if center := l.Snapshot().Model().Center(1); wrong > 0.21 || loss > 0.405 || !warned || !present(l, 1) || math.Abs(center) > 0.2 {
			t.Errorf("%v in a fifth of the events: error %.4f, %.4f nats, warned %v, center %v", value, wrong, loss, warned, center)
		}
	}
}
