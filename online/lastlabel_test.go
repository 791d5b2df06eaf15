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
			if n > 100 && !sameScores(p.Scores, scores) || n > 100 && math.Float64bits(p.Value) != math.Float64bits(want.Value) {
				t.Fatalf("%d classes, event %d: Predict says %v, Learn %v", classes, n, scores, p.Scores)
			}
			alone := p.Alone()
			if p.Measure(e, &total); !slices.Equal(alone.Scores, p.Scores) {
				told++
			}
			alone.Measure(e, &model)
			prior := late.Learner.Predict(again.next())
			stored, err := online.ReadPrediction(slices.Clone(prior.Append(nil)))
			if err != nil {
				t.Fatal(err)
			}
			if q := late.Learn(e, &stored); !sameScores(q.Scores, alone.Scores) || !sameScores(q.Scores, q.Alone().Scores) {
				t.Fatalf("%d classes, event %d: the learner of late labels says %v, the model alone %v", classes, n, q.Scores, alone.Scores)
			}
		}
		l.same(t, fmt.Sprint(classes, " classes"))
		r := l.Report()
		if told < 1400 || total.Wrong > 0.8*model.Wrong {
			t.Errorf("%d classes: %d of 1500 predictions use the last label; errors %v, of the model alone %v", classes, told, total.Wrong, model.Wrong)
		}
		sum, at := r.Summary(), "last label"
		if last := sum.Experts[len(sum.Experts)-1]; last.Name != at || last.Weight < 0.5 || last.Weight != l.Snapshot().Model().LastLabel {
			t.Errorf("%d classes: experts %+v, in the model %v", classes, sum.Experts, l.Snapshot().Model().LastLabel)
		}
		if classes == 0 {
			if got := r.Numbers.Total.MAE(); math.Abs(got-total.Wrong/total.Weight) > 1e-9 || math.Abs(*sum.ModelMAE-model.Wrong/model.Weight) > 1e-9 {
				t.Errorf("MAE %v and %v, of the predictions %v and %v", got, *sum.ModelMAE, total.Wrong/total.Weight, model.Wrong/model.Weight)
			}
			if got := float64(r.Numbers.Total.Within) / float64(r.Numbers.Total.Asked); got < 0.87 || got > 0.93 {
				t.Errorf("%v of the targets are in their interval", got)
			}
			continue
		}
		if math.Abs(r.Total.Wrong-total.Wrong) > 1e-9 || math.Abs(r.Total.LogLoss-total.LogLoss) > 1e-6 {
			t.Errorf("%d classes: measured %+v, of the predictions %+v", classes, r.Total, total)
		}
		if r = late.Report(); r.Summary().ModelError != nil {
			t.Error("the learner of late labels reports a model alone")
		}
	}
}

// TestLastLabelUnknown checks that only the label of the event directly before has a part in a prediction.
func TestLastLabelUnknown(t *testing.T) {
	l, s := newSticky(t, 2)
	for range 500 {
		l.Learn(s.next(), nil)
	}
	uses := func(p online.Prediction) bool { return !slices.Equal(p.Scores, p.Alone().Scores) }
	e := s.next()
	if !uses(l.Learner.Predict(e)) {
		t.Fatal("the last label has no part in a prediction")
	}
	unlabeled := s.next()
	if unlabeled.Label = event.Unlabeled; !uses(l.Learn(unlabeled, nil)) || uses(l.Learner.Predict(e)) || uses(l.Learn(e, nil)) {
		t.Error("after an unlabeled event")
	}
	if !uses(l.Learner.Predict(s.next())) {
		t.Error("after the next labeled event")
	}
	late := s.next()
	prior := alone(l.Learner.Predict(late))
	prior.Scores = slices.Clone(prior.Scores)
	if l.Learn(late, &prior); uses(l.Learner.Predict(s.next())) {
		t.Error("after an event whose label came late")
	}
	l.Learn(s.next(), nil)
	l.EndPass()
	l.again.EndPass()
	if uses(l.Learn(s.next(), nil)) {
		t.Error("in the second pass")
	}
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
			if p := l.Learn(e, nil); !slices.Equal(p.Scores, p.Alone().Scores) && name != "independent labels" {
				t.Fatalf("%s, event %d: the last label has a part in %v, without it %v", name, n, p.Scores, p.Alone().Scores)
			}
		}
		r := l.Report()
		for _, x := range r.Experts {
			if x.Name == "last label" && x.Weight > 0.05 {
				t.Errorf("%s: %+v", name, x)
			}
		}
	}
}
