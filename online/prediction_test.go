package online_test

import (
	"math"
	"slices"
	"testing"

	"blankout/internal/event"
	"blankout/internal/measure"
	"blankout/internal/model"
	"blankout/internal/must"
	"blankout/online"
	"blankout/online/synthetic"
)

// kept returns a Prediction as if stored with delayed labels.
func kept(p online.Prediction) *online.Prediction {
	read, err := online.ReadPrediction(p.Append(nil))
	if err != nil {
		panic(err)
	}
	return &read
}

// A stored Prediction is read back unchanged. Bytes that Append has not written are rejected.
func TestReadPrediction(t *testing.T) {
	for _, p := range []online.Prediction{{Refused: true}, {Learned: 7, Scores: []float64{1, -2}}, {Learned: 1 << 50, Scores: []float64{math.Inf(1)}, Lanes: []float64{3, 4}}} {
		got := kept(p)
		if got.Learned != p.Learned || !slices.Equal(got.Scores, p.Scores) || !slices.Equal(got.Lanes, p.Lanes) || got.Refused != p.Refused {
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

// A delayed label is measured by the prediction at arrival, and its event is learned like any other. The prediction at
// learning is returned.
func TestLearnDelayed(t *testing.T) {
	learner := func() *online.Learner {
		return must.Get(online.New(online.DefaultConfig(), event.NewSchema(4, []string{"no", "yes"}, 2)))
	}
	ev := func(x float64, label int) *event.Example {
		return &event.Example{Features: event.Vec{Index: []uint32{1}, Value: []float64{x}}, Label: label, Weight: 1}
	}
	later, plain := learner(), learner()
	prior := kept(later.Predict(ev(1, event.Unlabeled)))
	prior.Lanes = nil // they would change the mixture weights
	for i := range 50 {
		for _, l := range []*online.Learner{later, plain} {
			l.Learn(ev(float64(1-2*(i%2)), 1-i%2), nil)
		}
	}
	before := later.Report().Total
	var fresh measure.Classes
	p := later.Learn(ev(1, 1), prior)
	p.Measure(ev(1, 1), &fresh)
	told := slices.Clone(plain.Learn(ev(1, 1), nil).Scores)
	total := later.Report().Total
	if got, want := total.LogLoss-before.LogLoss, math.Log1p(math.Exp(-prior.Scores[0])); math.Abs(got-want) > 1e-12 {
		t.Errorf("the progressive log-loss grew by %v, want %v, that of the arrival", got, want)
	}
	if want := math.Log1p(math.Exp(-told[0])); math.Abs(fresh.LogLoss-want) > 1e-12 || fresh.Weight != 1 || fresh.LogLoss >= total.LogLoss-before.LogLoss {
		t.Errorf("at learning %+v, want a log-loss of %v", fresh, want)
	}
	if a, b := scoresOf(later, ev(1, 1))[0], scoresOf(plain, ev(1, 1))[0]; a != b {
		t.Errorf("learned later it scores %v, at once %v", a, b)
	}
}

// For numeric labels the progressive measures have the error of the prediction at arrival. The prediction at learning
// is measured separately.
func TestLearnNumberDelayed(t *testing.T) {
	c := online.DefaultConfig()
	c.Loss = "squared"
	later, plain := numberLearner(t, c), numberLearner(t, c)
	events := synthetic.NumbersOf(300, later.Schema().Target, 1)
	last := events[299]
	prior := kept(later.Predict(last))
	prior.Learned = 299 // otherwise it is from before the first label and not measured
	for _, e := range events[:299] {
		later.Learn(e, nil)
		plain.Learn(e, nil)
	}
	before := later.Report().Numbers.Total.Absolute
	var fresh measure.Classes
	p := later.Learn(last, prior)
	p.Measure(last, &fresh)
	told := plain.Learn(last, nil).Scores[0]
	if got, want := later.Report().Numbers.Total.Absolute-before, math.Abs(last.Target-prior.Scores[0]); math.Abs(got-want) > 1e-6*want {
		t.Errorf("the progressive absolute error grew by %v, want %v, that of the arrival", got, want)
	}
	if want := math.Abs(last.Target - told); math.Abs(fresh.Wrong-want) > 1e-6 || fresh.Weight != 1 || want > 0.5*math.Abs(last.Target-prior.Scores[0]) {
		t.Errorf("at learning %+v, want an error of %v", fresh, want)
	}
	if a, b := scoresOf(later, last)[0], scoresOf(plain, last)[0]; a != b {
		t.Errorf("learned later it scores %v, at once %v", a, b)
	}
}

// Mixture weights follow the lanes of the stored prediction, not the state when the label arrives. A prediction without
// lanes counts too.
func TestPriorMovesMixture(t *testing.T) {
	share := func(change func(e *event.Example, prior *online.Prediction)) []model.Expert {
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
	as := share(func(*event.Example, *online.Prediction) {})
	alone := share(func(_ *event.Example, prior *online.Prediction) { prior.Lanes = nil })
	// The level .7 has predicted everything correctly and the others the opposite.
	prophet := share(func(e *event.Example, prior *online.Prediction) {
		for i := range prior.Lanes {
			prior.Lanes[i] = float64(1-2*e.Label) * 3
		}
		prior.Lanes[2] *= -1
		prior.Lanes[3+2] *= -1
		prior.Learned = synthetic.Long
	})
	fools := share(func(e *event.Example, prior *online.Prediction) {
		for i := 6; i < len(prior.Lanes); i++ {
			prior.Lanes[i] = float64(1-2*e.Label) * 3
		}
		prior.Learned = synthetic.Long
	})
	beside := func(experts []model.Expert) (sum float64) {
		for _, e := range experts[3:] {
			sum += e.Share
		}
		return sum
	}
	if beside(as) < 0.5 || beside(fools) > 0.1 {
		t.Errorf("experts beside the levels have %v, of such as have said the contrary %v", as, fools)
	}
	if as[2].Share > 0.1 || alone[2].Share > 0.1 || prophet[2].Share < 0.9 {
		t.Errorf("shares %v, of scores alone %v, of a level that had known all %v", as, alone, prophet)
	}
}

// A prediction made before the first label is not compared with a baseline, for any number of levels.
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
