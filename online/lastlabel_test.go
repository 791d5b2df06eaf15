package online_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/loss"
	"blankout/internal/measure"
	"blankout/internal/model"
	"blankout/internal/must"
	"blankout/online"
	"blankout/online/synthetic"
)

// sticky draws events whose labels change rarely, and whose features say little.
type sticky struct {
	r       *rand.Rand
	classes int // 0 for regression
	label   int
	level   float64
}

func (s *sticky) next() *event.Example {
	e := &event.Example{Weight: 1}
	if s.level += s.r.NormFloat64(); s.r.IntN(10) == 0 {
		s.label = s.r.IntN(max(1, s.classes))
	}
	if e.Label = s.label; s.classes == 0 {
		e.Target = s.level
	}
	eventtest.Put(e, 1, s.r.NormFloat64()+float64(s.label)/4+s.level/50)
	eventtest.Put(e, 2, s.r.NormFloat64())
	return e
}

// newSticky returns a stream and a learner for it, which is restarted by twins.restart.
func newSticky(t *testing.T, classes int) (*twins, *sticky) {
	t.Helper()
	c, names := online.DefaultConfig(), []string{"a", "b", "c", "d"}[:classes]
	s := event.NewSchema(8, names, max(2, classes))
	if classes == 0 {
		c.Loss = "squared"
		s = synthetic.NumberSchema(loss.Real)
	}
	return newTwins(t, c, s), &sticky{rand.New(rand.NewPCG(1, 2)), classes, 0, 0}
}

// TestLastLabel checks predictions of streams whose labels change rarely: they use the last label, Learn returns the bits
// of Predict, also after restarts, and the measures are those of the returned predictions. The published model is that of
// a learner whose labels come late.
func TestLastLabel(t *testing.T) {
	for _, classes := range []int{0, 2, 4} {
		l, s := newSticky(t, classes)
		late, again := newSticky(t, classes)
		total, model, told := measure.Classes{}, measure.Classes{}, 0
		for n := range 1500 {
			e := s.next()
			if n == 700 || n == 701 {
				l.restart()
			}
			want := l.Learner.Predict(e)
			scores := slices.Clone(want.Scores)
			p := l.Learn(e, nil)
			must.Require(t, (n <= 100 || sameScores(p.Scores, scores)) && (n <= 100 || math.Float64bits(p.Value) == math.Float64bits(want.Value)),
				"%d classes, event %d: Predict says %v, Learn %v", classes, n, scores, p.Scores)
			alone := p.Alone()
			if p.Measure(e, &total); !slices.Equal(alone.Scores, p.Scores) {
				told++
			}
			alone.Measure(e, &model)
			prior := late.Learner.Predict(again.next())
			stored := must.Get(online.ReadPrediction(slices.Clone(prior.Append(nil))))(t)
			if q := late.Learn(e, &stored); !sameScores(q.Scores, alone.Scores) || !sameScores(q.Scores, q.Alone().Scores) {
				t.Fatalf("%d classes, event %d: the learner of late labels says %v, the model alone %v", classes, n, q.Scores, alone.Scores)
			}
		}
		l.same(t, fmt.Sprint(classes, " classes"))
		r := l.Report()
		must.True(t, told >= 1400 && total.Wrong <= 0.8*model.Wrong, "%d classes: %d of 1500 predictions use the last label; errors %v, of the model alone %v", classes, told, total.Wrong, model.Wrong)
		sum, at := r.Summary(), "last label"
		last := sum.Experts[len(sum.Experts)-1]
		must.True(t, last.Name == at && last.Weight >= 0.5 && last.Weight == l.Snapshot().Model().LastLabel, "%d classes: experts %+v, in the model %v", classes, sum.Experts, l.Snapshot().Model().LastLabel)
		if classes == 0 {
			if got := r.Numbers.Total.MAE(); math.Abs(got-total.Wrong/total.Weight) > 1e-9 || math.Abs(*sum.ModelMAE-model.Wrong/model.Weight) > 1e-9 {
				t.Errorf("MAE %v and %v, of the predictions %v and %v", got, *sum.ModelMAE, total.Wrong/total.Weight, model.Wrong/model.Weight)
			}
			got := float64(r.Numbers.Total.Within) / float64(r.Numbers.Total.Asked)
			must.True(t, got >= 0.87 && got <= 0.93, "%v of the targets are in their interval", got)
			continue
		}
		must.True(t, math.Abs(r.Total.Wrong-total.Wrong) <= 1e-9 && math.Abs(r.Total.LogLoss-total.LogLoss) <= 1e-6, "%d classes: measured %+v, of the predictions %+v", classes, r.Total, total)
		r = late.Report()
		must.True(t, r.Summary().ModelError == nil, "the learner of late labels reports a model alone")
	}
}

// TestLastLabelUnknown checks that only the label of the event directly before has a part in a prediction.
func TestLastLabelUnknown(t *testing.T) {
	l, s := newSticky(t, 2)
	learnNext(l, 500, s.next)
	uses := func(p online.Prediction) bool { return !slices.Equal(p.Scores, p.Alone().Scores) }
	e := s.next()
	must.Require(t, uses(l.Learner.Predict(e)), "the last label has no part in a prediction")
	unlabeled := s.next()
	unlabeled.Label = event.Unlabeled
	must.True(t, uses(l.Learn(unlabeled, nil)) && !uses(l.Learner.Predict(e)) && !uses(l.Learn(e, nil)), "after an unlabeled event")
	must.True(t, uses(l.Learner.Predict(s.next())), "after the next labeled event")
	late := s.next()
	prior := alone(l.Learner.Predict(late))
	prior.Scores = slices.Clone(prior.Scores)
	l.Learn(late, &prior)
	must.True(t, !uses(l.Learner.Predict(s.next())), "after an event whose label came late")
	l.Learn(s.next(), nil)
	l.EndPass()
	l.again.EndPass()
	must.True(t, !uses(l.Learn(s.next(), nil)), "in the second pass")
}

// TestLastLabelUseless checks that the last label gets no weight if labels are independent, under weights of classes, and
// if scores are no log-odds.
func TestLastLabelUseless(t *testing.T) {
	for name, set := range map[string]func(*online.Config){
		"independent labels": func(*online.Config) {}, "weights": func(c *online.Config) { c.ClassWeight = map[string]float64{"a": 3} },
		"hinge": func(c *online.Config) { c.Loss = "hinge" },
	} {
		c := online.DefaultConfig()
		set(&c)
		l, s := newLearner(t, c, event.NewSchema(8, []string{"a", "b"}, 2)), &sticky{rand.New(rand.NewPCG(1, 2)), 2, 0, 0}
		for n := range 3000 {
			e := s.next()
			if name == "independent labels" {
				e = &event.Example{Weight: 1, Label: s.r.IntN(2)}
				eventtest.Put(e, 1, s.r.NormFloat64()+float64(e.Label))
			}
			p := l.Learn(e, nil)
			must.Require(t, slices.Equal(p.Scores, p.Alone().Scores) || name == "independent labels", "%s, event %d: the last label has a part in %v, without it %v", name, n, p.Scores, p.Alone().Scores)
		}
		r := l.Report()
		for _, x := range r.Experts {
			must.True(t, x.Name != "last label" || x.Weight <= 0.05, "%s: %+v", name, x)
		}
	}
}

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
		must.True(t, got.Learned == p.Learned && slices.Equal(got.Scores, p.Scores) && slices.Equal(got.Components, p.Components) && got.Refused == p.Refused, "%+v, want %+v", got, p)
	}
	nan := math.NaN()
	for _, stored := range [][]float64{nil, {1}, {1, 1}, {1, -1}, {1, 0.5, 1}, {-1, 0}, {nan, 0}, {1, nan}, {math.Inf(1), 0}, {1, 3, 1, 2}} {
		p, err := online.ReadPrediction(stored)
		must.True(t, err != nil, "%v is read as %+v", stored, p)
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
	must.True(t, beside(as) >= 0.5 && beside(fools) <= 0.1, "experts beside the levels have %v, of such as have said the contrary %v", as, fools)
	must.True(t, as[2].Weight <= 0.1 && alone[2].Weight <= 0.1 && prophet[2].Weight >= 0.9, "shares %v, of scores alone %v, of a level that had known all %v", as, alone, prophet)
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
		must.True(t, lastError() == nil, "noise %s: there is an error of the last class", noise)
		prior = kept(l.Predict(e))
		l.Learn(e, prior)
		must.True(t, lastError() != nil, "noise %s: no error of the last class", noise)
	}
}
