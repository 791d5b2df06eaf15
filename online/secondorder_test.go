package online_test

import (
	"math"
	"slices"
	"testing"

	"blankout/internal/longtest"
	"blankout/online"
	"blankout/online/synthetic"
)

func tidesLearner(t testing.TB, s *synthetic.Tides, change func(*online.Config)) *online.Learner {
	t.Helper()
	return newLearner(t, with(func(c *online.Config) {
		if s.Classes == 0 {
			c.Loss = "squared"
		}
		if change != nil {
			change(c)
		}
	}), s.Schema())
}

// TestSecondOrderHelps checks that the loss of predictions with the second-order expert is lower than the loss of the
// noise levels alone.
func TestSecondOrderHelps(t *testing.T) {
	longtest.NotRaced(t)
	for _, classes := range []int{2, 3, 0} {
		lost := map[string]float64{}
		for _, rule := range []string{"adagrad", "auto"} {
			s := synthetic.NewTides(2, classes, 0)
			l := tidesLearner(t, s, func(c *online.Config) { c.Optimizer = rule })
			for range 5000 {
				l.Learn(s.Next(), nil)
			}
			m := l.Report()
			if lost[rule] = m.Total.MeanLogLoss(); classes == 0 {
				lost[rule] = *m.Numbers.Report().RMSE
			}
		}
		most := 0.7
		if classes == 0 {
			most = 0.999 // without splines
		}
		if !(lost["auto"] < most*lost["adagrad"]) {
			t.Errorf("%d classes: %v", classes, lost)
		}
	}
}

// TestSecondOrderCenters checks that the spline of a number adds zero to the score on average. An event without the
// number is then predicted without information from the number. Learning only complete events would not ensure this.
func TestSecondOrderCenters(t *testing.T) {
	s := synthetic.NewTides(4, 2, 0)
	l := tidesLearner(t, s, func(c *online.Config) { c.Noise = "none" })
	for range 20_000 {
		l.Learn(s.Next(), nil)
	}
	m := l.Snapshot().Model()
	c := m.Scaler.Splines
	if c == nil || len(c.Columns) != 3 {
		t.Fatalf("curves %+v", c)
	}
	for spline, column := range c.Columns {
		mean, size := 0.0, 0.0
		for range 4000 {
			x := s.Next().Features.Value[slices.Index([]uint32{0, 1, 2}, column)]
			knot, first, next := c.BasisValues(spline, x)
			adds := first * m.Weight(c.BasisColumn(spline, knot), 0)
			if next > 0 {
				adds += next * m.Weight(c.BasisColumn(spline, knot+1), 0)
			}
			mean, size = mean+adds/4000, size+adds*adds/4000
		}
		if size = math.Sqrt(size); math.Abs(mean) > size/2 {
			t.Errorf("column %d: its curve adds %.3f in the mean, of the size %.3f", column, mean, size)
		}
	}
}

// TestSecondOrderWeighsClasses checks that class_weight has the same effect as giving this weight to the events of the
// class.
func TestSecondOrderWeighsClasses(t *testing.T) {
	var answers [2][]float64
	for i := range answers {
		s := synthetic.NewTides(7, 2, 0)
		l := tidesLearner(t, s, func(c *online.Config) {
			c.Noise, c.Calibrate = "none", "off" // calibration undoes the weights of classes, not those of events
			if i == 0 {
				c.ClassWeight = map[string]float64{"flow": 4}
			}
		})
		for range 3000 {
			e := s.Next()
			if i == 1 && e.Label == 1 {
				e.Weight = 4
			}
			answers[i] = append(answers[i], alone(l.Learn(e, nil)).Scores...)
		}
	}
	if !slices.Equal(answers[0], answers[1]) {
		t.Errorf("%v by a class's weight, %v by its events'", answers[0][2990:], answers[1][2990:])
	}
}

// TestSecondOrderWithoutNumbers checks that the expert is not used without numeric fields. Predictions must have the
// same bits as predictions of the noise levels alone.
func TestSecondOrderWithoutNumbers(t *testing.T) {
	var answers [2][]float64
	for i, rule := range []string{"auto", "adagrad"} {
		s := synthetic.NewTides(8, 2, 0)
		l := tidesLearner(t, s, func(c *online.Config) { c.Optimizer = rule })
		for range 3000 {
			e := s.Next()
			last := len(e.Field) - 1
			e.Features.Index, e.Features.Value, e.Field = e.Features.Index[last:], e.Features.Value[last:], e.Field[last:]
			answers[i] = append(answers[i], alone(l.Learn(e, nil)).Scores...)
		}
		for _, x := range l.Report().Experts {
			if x.Name == "second order" {
				t.Errorf("under %s there are the experts %v", rule, l.Report().Experts)
			}
		}
	}
	if !slices.Equal(answers[0], answers[1]) {
		t.Error("answers are not those of the levels")
	}
}
