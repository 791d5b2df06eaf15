package online_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"blankout/internal/event"
	"blankout/internal/longtest"
	"blankout/internal/model"
	"blankout/online"
	"blankout/online/synthetic"
)

func kindsLearner(t *testing.T, classes int, change func(*online.Config)) *online.Learner {
	t.Helper()
	names := []string{"a", "b", "c", "d", "e", "f"}[:classes]
	s := event.NewSchema(8, names, classes)
	for id := range 12 {
		s.AddField(event.Field{Name: string(rune('k' + id)), Kind: event.Numeric})
	}
	c := online.DefaultConfig()
	if change != nil {
		change(&c)
	}
	l, err := online.New(c, s)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Sets of the published model hold the class as often as they should, of two classes and of more, with
// masks alone and where events lack fields by themselves, and of losses whose scores are no log-odds.
func TestSetsCoverWhatIsMissing(t *testing.T) {
	longtest.NotRaced(t)
	for i, test := range []struct {
		name          string
		classes       int
		null          float64
		coverage, tol float64
		change        func(*online.Config)
	}{
		{"two", 2, 0, 0.9, 0.02, nil},
		{"many", 5, 0, 0.9, 0.02, nil},
		{"many, null", 5, 0.3, 0.9, 0.02, nil},
		{"many, seldom", 5, 0, 0.7, 0.03, func(c *online.Config) { c.Coverage = 0.7 }},
		{"hinge", 2, 0, 0.9, 0.02, func(c *online.Config) { c.Loss = "hinge" }},
		{"many, hinge", 5, 0.1, 0.9, 0.025, func(c *online.Config) { c.Loss = "hinge" }},
		{"arow", 5, 0, 0.9, 0.03, func(c *online.Config) { c.Optimizer, c.Noise = "arow", "none" }},
		{"two, threshold", 2, 0, 0.9, 0.05, func(c *online.Config) { c.Threshold = 0.8 }},
		{"many, as it is", 5, 0, 0.9, 0.03, func(c *online.Config) { c.MissingPolicy = "none" }},
		{"two, calibration", 2, 0, 0.9, 0.02, func(c *online.Config) { c.Calibrate = "on" }},
	} {
		if !longtest.Some(i, 3) {
			continue
		}
		t.Run(test.name, func(t *testing.T) {
			l := kindsLearner(t, test.classes, func(c *online.Config) {
				if test.change != nil {
					test.change(c)
				}
			})
			s := &synthetic.ClassStream{R: rand.New(rand.NewPCG(1, 2)), Classes: test.classes, Null: test.null}
			for range 12_000 {
				l.Learn(s.Next(), nil)
			}
			m := l.Snapshot().Model()
			for _, null := range []float64{0, 0.3, 0.5, 0.7} {
				held, size, right := synthetic.Covered(t, m, &synthetic.ClassStream{R: rand.New(rand.NewPCG(3, 4)), Classes: test.classes, Null: null}, 2500)
				if held < test.coverage-test.tol || held > max(test.coverage, right)+test.tol {
					t.Errorf("%v null: %.3f of the classes are in their set, of which %.3f are right; %.2f classes in a set", null, held, right, size)
				}
			}
		})
	}
}

// A label that comes later is held against the set of the scores that the event was told.
func TestSetsOfLateLabels(t *testing.T) {
	l := kindsLearner(t, 3, nil)
	s := &synthetic.ClassStream{R: rand.New(rand.NewPCG(7, 8)), Classes: 3, Null: 0}
	for range 500 {
		l.Learn(s.Next(), nil)
	}
	const every = 5 // limits do not move so soon
	before := l.Report().Sets[0]
	for range every {
		e := s.Next()
		told := make([]float64, 3)
		for k := range told {
			if told[k] = 9; k == e.Label {
				told[k] = -9 // it was sure of all others
			}
		}
		l.Learn(e, &online.Prediction{Learned: l.Report().Events, Scores: told})
	}
	after := l.Report().Sets[0]
	if after.Events != before.Events+every || math.Round(after.Coverage*after.Events) != math.Round(before.Coverage*before.Events) {
		t.Errorf("%+v, before %+v: some of the sets held the class", after, before)
	}
}

// Intervals of numbers hold as many targets as they should where residuals are far from normal, too; those
// of a coverage of 0 are made as before there were others.
func TestIntervalsCover(t *testing.T) {
	for coverage, want := range map[float64]float64{0.9: 0.9, 0.6: 0.6, 0: 0.95} {
		c := online.DefaultConfig()
		c.Loss, c.Coverage = "squared", coverage
		l := numberLearner(t, c)
		r := rand.New(rand.NewPCG(9, 10))
		draw := func() *event.Example {
			x, noise := r.NormFloat64(), math.Copysign(math.Exp(1.3*r.NormFloat64()), r.NormFloat64())
			return &event.Example{Weight: 1, Target: 40 + 5*x + noise, Features: event.Vec{Index: []uint32{1}, Value: []float64{x}}}
		}
		for range 8000 {
			l.Learn(draw(), nil)
		}
		m, held := l.Snapshot().Model(), 0.0
		for range 4000 {
			e := draw()
			if low, high := m.Interval(m.Value(m.Score(e, make([]float64, 1))[0]), model.ScoreVariance(m, e)); low <= e.Target && e.Target <= high {
				held++
			}
		}
		if held /= 4000; math.Abs(held-want) > 0.04 {
			t.Errorf("coverage %v: intervals hold %v", coverage, held)
		}
		if got := l.Report().Sets; (got == nil) != (coverage == 0) {
			t.Errorf("coverage %v: told of sets %+v", coverage, got)
		}
	}
}
