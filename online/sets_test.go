package online_test

// This file tests prediction sets and intervals.

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/longtest"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/internal/must"
	"blankout/online"
	"blankout/online/synthetic"
)

func kindsLearner(t *testing.T, classes int, change func(*online.Config)) *learner {
	t.Helper()
	names := []string{"a", "b", "c", "d", "e", "f"}[:classes]
	return start(t, with(change), eventtest.Schema(12, "", names...))
}

// TestSets checks that prediction sets of the published model contain the true class as often as configured. It covers
// two classes and more, training with masks alone and with missing fields, and losses whose scores are not log-odds.
func TestSets(t *testing.T) {
	t.Parallel()
	for _, test := range longtest.Few([]struct {
		name          string
		classes       int
		null          float64
		coverage, tol float64
		change        func(*online.Config)
	}{
		{"two", 2, 0, 0.9, 0.025, nil},
		{"many", 5, 0, 0.9, 0.025, nil},
		{"many, null", 5, 0.3, 0.9, 0.025, nil},
		{"many, seldom", 5, 0, 0.7, 0.03, func(c *online.Config) { c.Coverage = 0.7 }},
		{"hinge", 2, 0, 0.9, 0.025, func(c *online.Config) { c.Loss = "hinge" }},
		{"many, hinge", 5, 0.1, 0.9, 0.03, func(c *online.Config) { c.Loss = "hinge" }},
		{"two, threshold", 2, 0, 0.9, 0.05, func(c *online.Config) { c.Threshold = 0.8 }},
		{"many, as it is", 5, 0, 0.9, 0.03, func(c *online.Config) { c.MissingPolicy = "none" }},
		{"two, calibration", 2, 0, 0.9, 0.025, func(c *online.Config) { c.Calibrate = "on" }},
	}, 2, 5) {
		t.Run(test.name, func(t *testing.T) {
			var learned [2]*model.Linear // models of two streams
			for seed := range learned {
				l := kindsLearner(t, test.classes, test.change)
				s := &synthetic.ClassStream{R: rand.New(rand.NewPCG(1+10*uint64(seed), 2)), Classes: test.classes, Null: test.null}
				learnNext(l, must.Either(longtest.Asked(), 9000, 6000), s.Next)
				learned[seed] = l.model()
			}
			for _, null := range []float64{0, 0.3, 0.5, 0.7} {
				var held, size, right float64
				for _, m := range learned {
					h, n, r := synthetic.Covered(t, m, &synthetic.ClassStream{R: rand.New(rand.NewPCG(3, 4)), Classes: test.classes, Null: null}, 2500)
					held, size, right = held+h/2, size+n/2, right+r/2
				}
				must.True(t, held >= test.coverage-test.tol && held <= max(test.coverage, right)+test.tol,
					"%v null: %.3f of the classes are in their set, of which %.3f are right; %.2f classes in a set", null, held, right, size)
			}
		})
	}
}

// TestSetsOfLateLabels checks that a delayed label is compared with the prediction set that was formed when the event
// arrived.
func TestSetsOfLateLabels(t *testing.T) {
	l := kindsLearner(t, 3, nil)
	s := &synthetic.ClassStream{R: rand.New(rand.NewPCG(7, 8)), Classes: 3, Null: 0}
	learnNext(l, 500, s.Next)
	const every = 5 // fewer events than a limit needs to change
	before := l.Report().Sets[0]
	for range every {
		e := s.Next()
		told := make([]float64, 3)
		for k := range told {
			if told[k] = 9; k == e.Label {
				told[k] = -9 // the prediction excluded only the true class
			}
		}
		l.Learn(e, &online.Prediction{Learned: l.Report().Events, Scores: told})
	}
	after := l.Report().Sets[0]
	must.True(t, after.Events == before.Events+every && math.Round(after.Coverage*after.Events) == math.Round(before.Coverage*before.Events),
		"%+v, before %+v: some of the sets held the class", after, before)
}

// TestIntervalsCover checks that regression intervals contain the configured fraction of targets, even if residuals are
// far from normal. With a coverage of 0, intervals must be those of normally distributed residuals.
func TestIntervalsCover(t *testing.T) {
	for coverage, want := range map[float64]float64{0.9: 0.9, 0.6: 0.6, 0: 0.95} {
		c := online.DefaultConfig()
		c.Loss, c.Coverage = "squared", coverage
		l := start(t, c, synthetic.NumberSchema(loss.LabelsOf(c.Loss)))
		r := rand.New(rand.NewPCG(9, 10))
		draw := func() *event.Example {
			x, noise := r.NormFloat64(), math.Copysign(math.Exp(1.3*r.NormFloat64()), r.NormFloat64())
			return &event.Example{Weight: 1, Target: 40 + 5*x + noise, Features: event.Vec{Index: []uint32{1}, Value: []float64{x}}}
		}
		learnNext(l, 8000, draw)
		m, held := l.model(), 0.0
		for range 4000 {
			e := draw()
			if low, high := m.Interval(m.Value(m.Score(e, make([]float64, 1))[0]), model.ScoreVariance(m, e)); low <= e.Target && e.Target <= high {
				held++
			}
		}
		held /= 4000
		must.True(t, math.Abs(held-want) <= 0.04, "coverage %v: intervals hold %v", coverage, held)
		got := l.Report().Sets
		must.True(t, (got == nil) == (coverage == 0), "coverage %v: told of sets %+v", coverage, got)
	}
}

// priced draws an event whose target grows exponentially with the features, and whose noise grows with the target, like
// prices.
func priced(r *rand.Rand) *event.Example {
	x, z := r.NormFloat64(), r.NormFloat64()
	y := math.Exp(0.5*x + 0.3*z)
	e := eventtest.Event(0, y, z)
	e.Target = 1000 * y * (1 + 0.2*r.NormFloat64())
	return e
}

// TestIntervalsByValue checks that nine of ten targets are in their intervals, for small and for large predictions, and
// that every interval contains its prediction.
func TestIntervalsByValue(t *testing.T) {
	for _, lossName := range []string{"squared", "absolute", "huber:1", "poisson"} {
		l, r := start(t, with(func(c *online.Config) { c.Loss = lossName }), eventtest.Schema(2, lossName)), rand.New(rand.NewPCG(11, 12))
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
				must.Require(t, low <= value && value <= high, "%s: %v lies outside its interval from %v to %v", lossName, value, low, high)
				answers = append(answers, answer{value, low <= e.Target && e.Target <= high})
			}
			l.Learn(e, nil)
		}
		slices.SortFunc(answers, func(a, b answer) int { return must.Either(a.value < b.value, -1, 1) })
		for q := range 4 {
			in, part := 0.0, answers[q*len(answers)/4:(q+1)*len(answers)/4]
			for _, a := range part {
				if a.in {
					in += 1 / float64(len(part))
				}
			}
			must.True(t, in >= 0.86 && in <= 0.95, "%s: quarter %d of the values: coverage %.3f", lossName, q+1, in)
		}
	}
}

// TestIntervalContainsItsValue checks targets that keep growing. From the second event on, every interval must contain
// its predicted value.
func TestIntervalContainsItsValue(t *testing.T) {
	t.Parallel()
	for _, lossName := range []string{"squared", "absolute", "quantile:0.9", "huber:1", "poisson"} {
		l := start(t, with(func(c *online.Config) { c.Loss = lossName }), eventtest.Schema(2, lossName))
		for i := range 150 {
			e := eventtest.Event(0, float64(i), 1)
			e.Target = float64(3 * i)
			m := l.model()
			value := m.Value(m.Score(e, make([]float64, 1))[0])
			low, high := m.Interval(value, model.MissingVariance{})
			must.Require(t, i <= 1 || low <= value && value <= high, "%s, event %d: %v lies outside its interval from %v to %v", lossName, i, value, low, high)
			l.Learn(e, nil)
		}
	}
}

// TestSetsOtherCoverage checks that some settings may change between runs: the coverage, whether there are prediction
// sets, and the calibration.
func TestSetsOtherCoverage(t *testing.T) {
	l := kindsLearner(t, 2, nil)
	s := &synthetic.ClassStream{R: rand.New(rand.NewPCG(7, 8)), Classes: 2}
	for _, coverage := range []float64{0.9, 0.6, 0, 0.9} {
		c := l.c
		c.Coverage, c.Calibrate = coverage, map[float64]string{0.9: "auto", 0.6: "on", 0: "off"}[coverage]
		l = l.restoredWith(c)
		again := l.Report().Sets
		must.True(t, (again != nil) == (coverage == 0.6), "coverage %v: it begins with sets %+v", coverage, again)
		p := l.Predict(s.Next())
		must.True(t, p.Learned == l.Report().Events, "components of %d events, of %d", p.Learned, l.Report().Events)
		learnNext(l, 900, s.Next)
		sets, link := l.model().Sets, l.model().Link
		must.True(t, (sets == nil) == (coverage == 0) && (sets == nil || sets.Coverage == coverage) && (link == nil) == (coverage != 0.6), "coverage %v: sets %+v, link %+v", coverage, sets, link)
	}
}
