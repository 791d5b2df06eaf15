package online_test

import (
	"math"
	"slices"
	"testing"

	"blankout/internal/event"
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
