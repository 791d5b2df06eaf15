package next_test

import (
	"math"
	"slices"
	"testing"

	"blankout/internal/event"
	"blankout/internal/model"
	"blankout/online"
	"blankout/online/next"
)

// After an exact solution has been taken over it predicts as the solution does, and goes on as the other learner: score by
// score, with averages that are not compared with iterates.
func TestAdoptOfTheOther(t *testing.T) {
	for name, set := range configs {
		for _, kind := range []string{"records", "texts"} {
			c := plain()
			set(&c)
			c.Adapt = false
			if c.Check() != nil || c.Optimizer == "auto" { // see TestCorrectedAdopts
				continue
			}
			s, other := streams[kind](1), streams[kind](1)
			was, err := online.New(c, other.schema)
			if err != nil {
				t.Fatal(err)
			}
			l := newLearner(t, c, s.schema)
			var events []*event.Example
			for range 150 {
				e, same := s.next(), other.next()
				e.Weight, same.Weight = 1, 1
				was.Learn(same, nil)
				l.Learn(e, nil)
				events = append(events, e)
			}
			exact, _ := was.Snapshot().Levels()
			halved := make([]*model.Linear, len(exact))
			for v, m := range exact {
				weights := map[uint32]float64{}
				for slot := range m.Rows.Len() {
					column, _ := m.Rows.Column(slot)
					weights[column] = m.Weight(column, 0)
				}
				halved[v] = halfOf(m, weights)
			}
			each := func(take func(*event.Example)) {
				for i, e := range events {
					x := *e
					x.Features = exact[0].Standardized(e, event.Vec{})
					if x.Weight = 1; i%5 == 0 {
						x.Weight = 2.5
					}
					take(&x)
				}
			}
			rested := 0
			l.Adopt(halved, func(take func(*event.Example)) { each(take); each(take) }, func() { rested++ })
			if rested != 1 {
				t.Errorf("%s: it rested %d times in 300 events", name, rested)
			}
			was.Adopt(halved, func(take func(*event.Example)) { each(take); each(take) }, func() {})
			largest := 0
			for v, x := range l.Report().Experts {
				if x.Share > 0.99 {
					largest = v
				}
			}
			for n := range 250 {
				e := s.next()
				want, got := was.Predict(e).Scores[0], l.Predict(e).Scores[0]
				if d := math.Abs(got - want); !(d <= 1e-6*max(1, math.Abs(want))) {
					t.Fatalf("%s, %s: event %d after: %v, not %v", name, kind, n, got, want)
				}
				if m := halved[largest].Score(e, make([]float64, 1))[0]; n == 0 && len(e.Missing) == 0 && math.Abs(m-got) > 0.05*math.Abs(m) { // scores count at several scales
					t.Fatalf("%s, %s: it predicts %v, the solution %v", name, kind, got, m)
				}
				if n < 100 { // then mixture weights come into force
					was.Learn(e, nil)
					l.Learn(e, nil)
				}
			}
		}
	}
}

// halfOf returns a model with half of the weights of another one, and of its intercept.
func halfOf(m *model.Linear, weights map[uint32]float64) *model.Linear {
	out := *m
	out.Rows = model.NewTable(model.ScalerWidth + 1)
	out.Layout = model.Layout{Width: out.Rows.Width(), Weight: model.ScalerWidth}
	out.Intercept = []float64{m.Intercept[0] / 2}
	for slot := range m.Rows.Len() {
		column, row := m.Rows.Column(slot)
		to := out.Rows.Touch(column)
		copy(to, row[:model.ScalerWidth])
		to[model.ScalerWidth] = weights[column] / 2
	}
	return &out
}

// A Clone goes on to the bit, and neither moves the other.
func TestClone(t *testing.T) {
	for kind, draw := range streams {
		for _, name := range []string{"default", "observed", "gaussian", "half-life", "calibrated", "silent too"} {
			c := plain()
			configs[name](&c)
			s, again, others := draw(9), draw(9), draw(10)
			l, alone := newLearner(t, c, s.schema), newLearner(t, c, again.schema)
			var copied *next.Learner
			for n := range 2400 {
				if n == 700 {
					var err error
					if copied, err = l.Clone(); err != nil {
						t.Fatal(err)
					}
				}
				e, same := s.next(), again.next()
				got, want := slices.Clone(l.Learn(e, nil).Scores), alone.Learn(same, nil).Scores
				if !slices.Equal(got, want) {
					t.Fatalf("%s, %s: event %d: %v, without a copy %v", kind, name, n, got, want)
				}
				switch {
				case copied == nil:
				case n >= 1000:
					x := others.next()
					x.Weight = 2
					copied.Learn(x, nil)
				default:
					if p := copied.Learn(e, nil).Scores; !slices.Equal(p, want) {
						t.Fatalf("%s, %s: event %d: the copy says %v, not %v", kind, name, n, p, want)
					}
				}
			}
		}
	}
}
