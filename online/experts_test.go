package online_test

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/longtest"
	"blankout/internal/model"
	"blankout/internal/must"
	"blankout/online"
	"blankout/online/encode"
	"blankout/online/synthetic"
)

// correctedConfigs returns settings whose learners have experts that correct the noise levels.
func correctedConfigs(classes int) map[string]online.Config {
	all := map[string]online.Config{}
	for name, set := range map[string]func(*online.Config){
		"alone":    func(c *online.Config) { c.Noise = "dropout:0.2" },
		"default":  func(c *online.Config) { c.Presence = "auto" },
		"silent":   func(c *online.Config) { c.SilentMissing, c.SilentGroups = 0.4, classes > 0 },
		"expected": func(c *online.Config) { c.ExpectedMissing, c.UnlabeledWeight, c.HalfLife = 0.5, 0.1, 400 },
		"rescaled": func(c *online.Config) {
			if c.MissingPolicy = "rescale"; classes == 0 {
				c.MissingPolicy = "none"
			}
		},
	} {
		c := plain()
		if c.Optimizer = "auto"; classes == 0 {
			c.Loss = "squared"
		}
		set(&c)
		all[name] = c
	}
	return all
}

// drawn returns a stream of random events. They have declared and omitted missing readings, wrong readings, missing
// labels and different weights.
func drawn(seed uint64, classes int) (*event.Schema, func() *event.Example) {
	s, draw := readingsOf(seed, classes)
	if classes > 2 {
		s.Classes, s.MaxClasses = s.Classes[:2], classes
	}
	r, n := rand.New(rand.NewPCG(seed, 9)), 0
	return s, func() *event.Example {
		e := draw()
		for n++; classes > 2 && n < 300 && e.Label > 1; {
			e = draw()
		}
		for e.Label >= len(s.Classes) && classes > 0 {
			s.Classes = append(s.Classes, fmt.Sprint(len(s.Classes)))
		}
		fraction := 0.0
		if r.IntN(3) == 0 {
			fraction = r.Float64()
		}
		left := &event.Example{Label: e.Label, Target: e.Target, Weight: 1}
		for i, column := range e.Features.Index {
			switch {
			case r.Float64() >= fraction && (i != 2 || r.IntN(3) > 0):
				eventtest.Put(left, column, e.Features.Value[i], e.Field[i])
			case i != 2:
				left.Missing = append(left.Missing, e.Field[i])
			}
		}
		switch r.IntN(20) {
		case 0:
			left.Label = event.Unlabeled
		case 1:
			left.Weight = 20 * r.Float64()
		}
		return left
	}
}

// TestNestedScores compares the scores of nested copies of an event, by all experts and in one pass, with those of each
// copy alone.
func TestNestedScores(t *testing.T) {
	t.Parallel()
	for i, classes := range []int{2, 7, 0} {
		for _, noise := range longtest.Few([]string{"auto", "dropout:0.2"}, i, 2) {
			c := plain()
			if c.Optimizer, c.Noise, c.Presence = "auto", noise, "auto"; classes == 0 {
				c.Loss = "squared"
			}
			s, draw := drawn(3, classes)
			l := newLearner(t, c, s)
			r, count := rand.New(rand.NewPCG(1, 2)), 0
			for n := range 1500 {
				l.Learn(draw(), nil)
				together, alone, corrects := l.NestedScores(func(int) int8 { return int8(r.IntN(11) - 1) })
				if corrects {
					count++
				}
				for i, want := range alone {
					must.Require(t, slices.EqualFunc(together[i], want, func(a, b float64) bool { return math.Abs(a-b) <= 1e-9*(1+math.Abs(b)) }),
						"%d classes, %s, event %d, copy %d: %v, want %v", classes, noise, n, 1+i, together[i], want)
				}
			}
			must.True(t, count > 100, "%d classes, %s: the correcting experts have scored %d events", classes, noise, count)
		}
	}
}

// TestCorrected checks learners with correcting experts. The model of a Snapshot must predict the same as Predict, and
// a restart at any event must not change any bits. It covers two classes, several late classes and regression, with
// missing fields and delayed labels.
func TestCorrected(t *testing.T) {
	t.Parallel()
	for _, classes := range []int{2, 4, 0} {
		all := correctedConfigs(classes)
		for _, name := range longtest.Few(slices.Sorted(maps.Keys(all)), classes/2, 3) {
			c := all[name]
			t.Run(fmt.Sprint(classes, " ", name), func(t *testing.T) {
				schema, draw := drawn(7, classes)
				l, later, r := newTwins(t, c, schema), [][2]any(nil), rand.New(rand.NewPCG(3, 3))
				for n := range 1200 {
					if n%157 == 2 || n == 1001 {
						l.restart()
					}
					e := draw()
					var prior *online.Prediction
					if r.IntN(4) == 0 { // its label is delayed
						p := l.Predict(e)
						p.Scores, p.Components = slices.Clone(p.Scores), slices.Clone(p.Components)
						if later = append(later, [2]any{e, &p}); len(later) < 5 {
							continue
						}
						e, prior, later = later[0][0].(*event.Example), later[0][1].(*online.Prediction), later[1:]
					}
					l.Learn(e, prior)
					if n%60 == 59 {
						agree(t, l.Learner, draw())
					}
				}
				list := fmt.Sprint(l.Report().Experts)
				must.True(t, strings.Contains(list, "second order"), "the experts are %s", list)
			})
		}
	}
}

// rings returns a stream whose class depends on the distance of two numbers from their means. A linear model of these
// numbers cannot learn it.
func rings(seed uint64, flat *bool) (*event.Schema, func() *event.Example) {
	s := eventtest.Schema(3, "", "in", "out")
	r := rand.New(rand.NewPCG(seed, 4))
	return s, func() *event.Example {
		x, y := r.NormFloat64(), r.NormFloat64()
		e := eventtest.Event(0, x, 10+3*y, r.NormFloat64())
		e.Label = must.Either(*flat && r.IntN(2) == 0 || !*flat && x*x+y*y+0.3*r.NormFloat64() > 1.4, 1, 0)
		return e
	}
}

// TestCorrectedRest checks that correcting experts without a gain rest and do not affect predictions. They must be used
// again once they have a gain, and must reduce the loss overall.
func TestCorrectedRest(t *testing.T) {
	flat := true
	s, draw := rings(5, &flat)
	c := plain()
	c.Optimizer = "auto"
	l := newLearner(t, c, s)
	fractions := func() (sum float64) {
		for _, e := range l.Report().Experts {
			if e.Corrects {
				sum += e.Weight
			}
		}
		return sum
	}
	learnNext(l, 20_000, draw)
	must.Equal(t, fractions(), 0, "where there is nothing to learn the experts have")
	l = restart(t, c, l)
	for n := range 100 {
		agree(t, l, draw())
		must.True(t, n != 99 || fractions() == 0, "after a restart they do not rest")
		l.Learn(draw(), nil)
	}
	flat = false
	wrong := 0
	for n := range 30_000 {
		e := draw()
		p := l.Learn(e, nil)
		if n >= 25_000 && p.Decision.Predict(p.Scores) != e.Label {
			wrong++
		}
	}
	got := fractions()
	must.True(t, got >= 0.5 && wrong <= 5000/6, "where they gain the experts have %v of the mixture, and %d of 5000 are wrong", got, wrong)
}

// TestCorrectedYoungClasses checks that classes with few events share an output, with and without correcting experts.
func TestCorrectedYoungClasses(t *testing.T) {
	s, r := manyClasses(4), rand.New(rand.NewPCG(2, 2))
	online.TakeMoreClasses(s.schema)
	c := plain()
	c.Optimizer = "auto"
	l, shared, alike := newTwins(t, c, s.schema), 0, 0
	for n := range 1600 {
		e := s.next()
		e.Features.Index = append([]uint32{1, 2}, e.Features.Index...)
		e.Features.Value = append([]float64{5 + float64(e.Label%3) + 0.3*r.NormFloat64(), r.NormFloat64()}, e.Features.Value...)
		if n%97 == 96 {
			l.restart()
		}
		l.Learn(e, nil)
		if n%100 == 99 {
			agree(t, l.Learner, e)
			if l.Snapshot().Model().Layout.Outputs != nil {
				shared++
			}
			if strings.Contains(fmt.Sprint(l.Report().Experts), "second order") {
				alike++
			}
		}
	}
	must.True(t, shared != 0 && alike != 0, "of 16 models %d share an output, %d have experts", shared, alike)
}

// TestCorrectedManyClasses checks that many classes with few events each are classified by their means. A restarted
// learner and the Snapshot must give the same result.
func TestCorrectedManyClasses(t *testing.T) {
	t.Parallel()
	const classes, numbers = 40, 12
	names := must.List(classes, func(k int) string { return fmt.Sprint(k) })
	s, r := eventtest.Schema(numbers, "", names...), rand.New(rand.NewPCG(1, 1))
	means := must.List(classes*numbers, func(int) float64 { return r.NormFloat64() })
	c := plain()
	c.Optimizer = "auto"
	l, wrong := newTwins(t, c, s), 0
	for n := range 2400 {
		if n%211 == 40 {
			l.restart()
		}
		x, label, common := make([]float64, numbers), r.IntN(classes), 2*r.NormFloat64()
		for i := range x {
			x[i] = 5 + 3*(means[label*numbers+i]+0.6*r.NormFloat64()+common)
		}
		e := eventtest.Event(label, x...)
		if p := l.Learn(e, nil); n >= 1200 && p.Decision.Predict(p.Scores) != e.Label {
			wrong++
		}
		if n%150 == 149 {
			agree(t, l.Learner, e)
		}
	}
	list := fmt.Sprint(l.Report().Experts)
	must.True(t, wrong <= 120 && !strings.Contains(list, "discriminant 0 "), "%d of 1200 are wrong, experts %s", wrong, list)
}

// TestExpertsOfCorrections checks the reported mixture weights. The reported noise level must have the largest weight,
// and the weight of the correcting experts must be reported separately.
func TestExpertsOfCorrections(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	l := streamLearner(t, online.DefaultConfig(), 2)
	corrected := 0.0
	for range 3000 {
		e := synthetic.Drawn(r)
		x := e.Features.Value[0]
		if e.Label = 0; math.Abs(x) > 1 {
			e.Label = 1 // only a spline can express it
		}
		l.Learn(e, nil)
	}
	m := l.Report()
	levels, named := 0.0, -1.0
	for _, x := range m.Experts {
		if x.Corrects {
			if x.Name != "cosines" { // which are added to the corrected prediction
				corrected += x.Weight
			}
			continue
		}
		levels += x.Weight
		if x.Name == m.Level {
			named = x.Weight
		}
	}
	must.True(t, math.Abs(levels-1) <= 1e-9 && corrected >= .5 && corrected <= 1+1e-9, "levels have %v, corrections %v: %+v", levels, corrected, m.Experts)
	for _, x := range m.Experts {
		must.True(t, (x.Corrects || x.Weight <= named) && named > 0, "%s answers with a share of %v: %+v", m.Level, named, m.Experts)
	}
}

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
			learnNext(l, 5000, s.Next)
			m := l.Report()
			if lost[rule] = m.Total.MeanLogLoss(); classes == 0 {
				lost[rule] = *m.Numbers.Report().RMSE
			}
		}
		most := 0.7
		if classes == 0 {
			most = 0.999 // without splines
		}
		must.True(t, lost["auto"] < most*lost["adagrad"], "%d classes: %v", classes, lost)
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
	must.True(t, slices.Equal(answers[0], answers[1]), "%v by a class's weight, %v by its events'", answers[0][2990:], answers[1][2990:])
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
			must.True(t, x.Name != "second order", "under %s there are the experts %v", rule, l.Report().Experts)
		}
	}
	must.True(t, slices.Equal(answers[0], answers[1]), "answers are not those of the levels")
}

// ringsLearner returns a Learner that has learned rings, and its error on the last third of the events in percent.
func ringsLearner(t *testing.T, classes int, events []*event.Example) (*online.Learner, float64) {
	t.Helper()
	l := newLearner(t, asIs(online.DefaultConfig()), eventtest.Schema(3, "", []string{"one", "two", "three"}[:classes]...))
	wrong := 0
	for i, e := range events {
		if p := l.Learn(e, nil); i >= 2*len(events)/3 && p.Decision.Predict(p.Scores) != e.Label {
			wrong++
		}
	}
	return l, 300 * float64(wrong) / float64(len(events))
}

// TestCosinesSeparateRings checks that the cosines learn what no sum over single numbers can express. The Bayes error is
// 6.4 % of three rings and 4.8 % of two.
func TestCosinesSeparateRings(t *testing.T) {
	for classes, most := range map[int]float64{2: 6.5, 3: 8.5} { // without cosines 8.0 and 14.4
		_, got := ringsLearner(t, classes, synthetic.Rings(6000, classes, 1))
		must.True(t, got <= most, "%d rings: %.1f %% wrong, want at most %v", classes, got, most)
	}
}

// TestCosinesAreServed checks that a published model, also after it was written and read, gives the scores of the
// Learner if fields are null, and that its explanation sums to the score.
func TestCosinesAreServed(t *testing.T) {
	for _, classes := range []int{2, 3} {
		l, _ := ringsLearner(t, classes, synthetic.Blanked(synthetic.Rings(6000, classes, 2), 0.1, 3))
		if classes == 3 { // another policy than the default
			c := asIs(online.DefaultConfig())
			c.MissingPolicy = "fill"
			l = restart(t, c, l)
		}
		held := l.Snapshot().Model()
		read := must.Get(model.ReadLinear(blocksOf(t, l)))(t)
		must.Require(t, held.Cosines != nil && held.Cosines.Factors[0] >= 0.5, "%d rings: the model has no cosines", classes)
		for name, m := range map[string]*model.Linear{"held": held, "read": read, "compact": held.Compact()} {
			for _, missing := range []float64{0, 0.3, 0.6} {
				for i, e := range synthetic.Blanked(synthetic.Rings(100, classes, 4), missing, 5) {
					at := fmt.Sprintf("%s, %d rings, %v missing, event %d", name, classes, missing, i)
					want := scoresOf(l, e)
					must.Near(t, score(m, e), want, 1e-10, at, "score, and the learner")
					x := m.Explain(e, classes-1)
					sum := x.Intercept + x.Imputed + x.Cosines
					for _, term := range x.Terms {
						sum += term.Contribution
					}
					must.Require(t, math.Abs(sum-x.Score) <= 1e-9 && math.Abs(x.Score-want[len(want)-1]) <= 1e-9 && (x.Cosines != 0 || held.Cosines.Factors[m.Handling(e).Range] <= 0),
						"%s: explained by %v of %v, cosines %v", at, sum, want, x.Cosines)
				}
			}
		}
	}
}

// TestCosinesRest checks that cosines without a gain have no part in predictions, nor one that is left of an earlier event.
func TestCosinesRest(t *testing.T) {
	l := newLearner(t, online.DefaultConfig(), eventtest.Schema(3, "", "no", "yes"))
	for i, e := range synthetic.Rings(12000, 2, 6) {
		e.Label = 0
		if x := e.Features.Value; (x[0]+x[1] > 0) != (i%10 == 0) {
			e.Label = 1
		}
		l.Learn(e, nil)
	}
	c := l.Snapshot().Model().Cosines
	must.True(t, c == nil || c.Factors[0] <= 0.05, "cosines of a line: %+v", c)
	kept := l.KeepsCosines()
	must.True(t, kept == nil, "the part of an earlier event stays after %v", kept)
}

// TestExpertsAreWeighedAsServed checks that experts get no weight for what calibration makes good anyway. A line separates
// the classes and one label of ten is wrong, so that only the steepness of the scores is to be corrected.
func TestExpertsAreWeighedAsServed(t *testing.T) {
	longtest.NotRaced(t)
	lost := func(optimizer string) (sum float64) {
		for seed := range uint64(3) {
			c := online.DefaultConfig()
			c.Optimizer = optimizer
			l := newLearner(t, c, eventtest.Schema(3, "", "no", "yes"))
			r := rand.New(rand.NewPCG(seed, 7))
			for i := range 16_000 {
				x := []float64{10 * r.Float64(), 10 * r.Float64(), 10 * r.Float64()}
				label := must.Either((x[0]+x[1] > 8+0.5*float64(i/4000)) != (r.Float64() < 0.1), 1, 0)
				p := l.Learn(eventtest.Event(label, x...), nil)
				sum += p.Decision.LogLoss(p.Scores, label)
			}
		}
		return sum / (3 * 16_000)
	}
	with, without := lost("auto"), lost("adagrad")
	// weighed by losses before calibration they cost 0.0001
	must.True(t, with <= without-0.0002, "with experts %.4f nats, without %.4f", with, without)
}

// TestManyClassesHaveNoSplines checks that the number of knots depends on the number of outputs, which grows with the classes.
func TestManyClassesHaveNoSplines(t *testing.T) {
	for _, classes := range []int{2, 81} {
		s, r := event.NewSchema(10, nil, classes), rand.New(rand.NewPCG(1, 2))
		for i := range 250 {
			s.AddField(event.Field{Name: fmt.Sprint("n", i), Kind: event.Numeric})
		}
		l := must.Get(online.New(online.DefaultConfig(), s))(t)
		for n := range encode.KnotEvents + 1 {
			e := &event.Example{Weight: 1, Label: n % classes}
			for len(s.Classes) <= e.Label {
				s.Classes = append(s.Classes, fmt.Sprint(len(s.Classes)))
			}
			for i := range uint32(250) {
				eventtest.Put(e, i, r.NormFloat64())
				e.Field = append(e.Field, uint16(i+1))
			}
			l.Learn(e, nil)
		}
		must.Equal(t, l.Snapshot().Model().Scaler.Splines != nil, classes == 2, "splines of", classes, "classes")
	}
}
