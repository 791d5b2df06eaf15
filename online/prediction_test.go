package online_test

import (
	"math"
	"slices"
	"testing"

	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/loss"
	"blankout/internal/measure"
	"blankout/internal/model"
	"blankout/online"
	"blankout/online/synthetic"
)

// kept returns a Prediction after encoding with Append and decoding with ReadPrediction.
func kept(p online.Prediction) *online.Prediction {
	read, err := online.ReadPrediction(p.Append(nil))
	if err != nil {
		panic(err)
	}
	return &read
}

// TestReadPrediction checks that a stored Prediction is decoded unchanged. Values that Append cannot have written must
// be rejected.
func TestReadPrediction(t *testing.T) {
	for _, p := range []online.Prediction{{Refused: true}, {Learned: 7, Scores: []float64{1, -2}}, {Learned: 1 << 50, Scores: []float64{math.Inf(1)}, Components: []float64{3, 4}}} {
		got := kept(p)
		if got.Learned != p.Learned || !slices.Equal(got.Scores, p.Scores) || !slices.Equal(got.Components, p.Components) || got.Refused != p.Refused {
			t.Errorf("%+v, want %+v", got, p)
		}
	}
	nan := math.NaN()
	for _, stored := range [][]float64{nil, {1}, {1, 1}, {1, -1}, {1, 0.5, 1}, {-1, 0}, {nan, 0}, {1, nan}, {math.Inf(1), 0}, {1, 3, 1, 2}} {
		if p, err := online.ReadPrediction(stored); err == nil {
			t.Errorf("%v is read as %+v", stored, p)
		}
	}
}

// TestLearnDelayed checks that a delayed label is measured against the prediction at the event's arrival, and that the
// event is learned like any other event. Learn must return the current prediction, which the test measures separately.
func TestLearnDelayed(t *testing.T) {
	ev := func(x float64, label int) *event.Example {
		return &event.Example{Features: event.Vec{Index: []uint32{1}, Value: []float64{x}}, Label: label, Weight: 1}
	}
	var classes []*event.Example
	for i := range 50 {
		classes = append(classes, ev(float64(1-2*(i%2)), 1-i%2))
	}
	logLoss := func(e *event.Example, f float64) float64 { return math.Log1p(math.Exp(float64(1-2*e.Label) * f)) }
	absolute := func(e *event.Example, f float64) float64 { return math.Abs(e.Target - f) }
	for lossName, c := range map[string]struct {
		schema   *event.Schema
		events   []*event.Example // the label of the last event is delayed
		lost     func(e *event.Example, score float64) float64
		total    func(online.Report) float64
		measured func(measure.Classes) float64
	}{
		"logistic": {event.NewSchema(4, []string{"no", "yes"}, 2), append(classes, ev(1, 1)), logLoss,
			func(r online.Report) float64 { return r.Total.LogLoss }, func(m measure.Classes) float64 { return m.LogLoss }},
		"squared": {eventtest.Schema(3, "squared"), synthetic.NumbersOf(300, loss.Real, 1), absolute,
			func(r online.Report) float64 { return r.Numbers.Total.Absolute }, func(m measure.Classes) float64 { return m.Wrong }},
	} {
		config := with(func(c *online.Config) { c.Loss = lossName })
		later, plain := newLearner(t, config, c.schema), newLearner(t, config, c.schema)
		first, last := c.events[:len(c.events)-1], c.events[len(c.events)-1]
		waits := *last
		waits.Label = event.Unlabeled
		if lossName == "squared" {
			waits.Label = 0
		}
		prior := kept(later.Predict(&waits))
		prior.Components = nil             // components would change the mixture weights
		prior.Learned = uint64(len(first)) // predictions before the first target are not measured
		for _, e := range first {
			later.Learn(e, nil)
			plain.Learn(e, nil)
		}
		before := c.total(later.Report())
		var fresh measure.Classes
		p := later.Learn(last, prior)
		p.Measure(last, &fresh)
		told := slices.Clone(alone(plain.Learn(last, nil)).Scores)[0]
		if got, want := c.total(later.Report())-before, c.lost(last, prior.Scores[0]); math.Abs(got-want) > 1e-6*want {
			t.Errorf("%s: the progressive loss grew by %v, want %v, that of the arrival", lossName, got, want)
		}
		if got, want := c.measured(fresh), c.lost(last, told); math.Abs(got-want) > 1e-6 || fresh.Weight != 1 || want > 0.5*c.lost(last, prior.Scores[0]) {
			t.Errorf("%s: at learning %+v, want a loss of %v", lossName, fresh, want)
		}
		if a, b := scoresOf(later, last)[0], scoresOf(plain, last)[0]; a != b {
			t.Errorf("%s: learned later it scores %v, at once %v", lossName, a, b)
		}
	}
}

// TestPriorMovesMixture checks that mixture weights are updated with the components of the stored prediction,
// not with the scores when the label arrives. A prediction without components must also be accepted.
func TestPriorMovesMixture(t *testing.T) {
	fraction := func(change func(e *event.Example, prior *online.Prediction)) []model.Expert {
		s := synthetic.NewTides(3, 2, 0)
		l := tidesLearner(t, s, nil)
		for range 2000 {
			e := s.Next()
			prior := kept(l.Predict(e))
			change(e, prior)
			l.Learn(e, prior)
		}
		return l.Report().Experts
	}
	as := fraction(func(*event.Example, *online.Prediction) {})
	alone := fraction(func(_ *event.Example, prior *online.Prediction) { prior.Components = nil })
	// The stored components are right for noise level .7, and wrong for the other levels.
	prophet := fraction(func(e *event.Example, prior *online.Prediction) {
		for i := range prior.Components {
			prior.Components[i] = float64(1-2*e.Label) * 3
		}
		prior.Components[2] *= -1
		prior.Components[3+2] *= -1
		prior.Learned = synthetic.Long
	})
	fools := fraction(func(e *event.Example, prior *online.Prediction) {
		for i := 6; i < len(prior.Components); i++ {
			prior.Components[i] = float64(1-2*e.Label) * 3
		}
		prior.Learned = synthetic.Long
	})
	beside := func(experts []model.Expert) (sum float64) {
		for _, e := range experts[3:] {
			sum += e.Weight
		}
		return sum
	}
	if beside(as) < 0.5 || beside(fools) > 0.1 {
		t.Errorf("experts beside the levels have %v, of such as have said the contrary %v", as, fools)
	}
	if as[2].Weight > 0.1 || alone[2].Weight > 0.1 || prophet[2].Weight < 0.9 {
		t.Errorf("shares %v, of scores alone %v, of a level that had known all %v", as, alone, prophet)
	}
}

// TestPriorBeforeLabels checks that a prediction made before the first label is not compared with a baseline. It tests
// several numbers of noise levels.
func TestPriorBeforeLabels(t *testing.T) {
	for _, noise := range []string{"auto", "none"} {
		s := synthetic.NewTides(3, 2, 0)
		l := tidesLearner(t, s, func(c *online.Config) { c.Noise, c.Optimizer = noise, "adagrad" })
		e := s.Next()
		prior := kept(l.Predict(e))
		for range 3 {
			l.Learn(e, prior)
		}
		lastError := func() *float64 { m := l.Report(); return m.Baselines.Report(false).LastError }
		if x := lastError(); x != nil {
			t.Errorf("noise %s: an error of %v of the last class", noise, *x)
		}
		prior = kept(l.Predict(e))
		if l.Learn(e, prior); lastError() == nil {
			t.Errorf("noise %s: no error of the last class", noise)
		}
	}
}
