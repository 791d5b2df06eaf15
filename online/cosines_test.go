package online_test

import (
	"fmt"
	"math"
	"testing"

	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/model"
	"blankout/internal/must"
	"blankout/online"
	"blankout/online/synthetic"
)

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
		if _, got := ringsLearner(t, classes, synthetic.Rings(6000, classes, 1)); got > most {
			t.Errorf("%d rings: %.1f %% wrong, want at most %v", classes, got, most)
		}
	}
}

// TestCosinesAreServed checks that a published model, also after it was written and read, gives the scores of the
// Learner if fields are null, and that its explanation sums to the score.
func TestCosinesAreServed(t *testing.T) {
	for _, classes := range []int{2, 3} {
		l, _ := ringsLearner(t, classes, synthetic.Blanked(synthetic.Rings(6000, classes, 2), 0.1, 3))
		held := l.Snapshot().Model()
		read := must.Get(model.ReadLinear(blocksOf(t, l)))(t)
		if held.Cosines == nil || held.Cosines.Factors[0] < 0.5 {
			t.Fatalf("%d rings: the model has no cosines", classes)
		}
		for name, m := range map[string]*model.Linear{"held": held, "read": read, "compact": held.Compact()} {
			for _, missing := range []float64{0, 0.3, 0.6} {
				for i, e := range synthetic.Blanked(synthetic.Rings(100, classes, 4), missing, 5) {
					at := fmt.Sprintf("%s, %d rings, %v missing, event %d", name, classes, missing, i)
					want := scoresOf(l, e)
					for k, f := range score(m, e) {
						if math.Abs(f-want[k]) > 1e-9 {
							t.Fatalf("%s: score %v, the learner %v", at, f, want[k])
						}
					}
					x := m.Explain(e, classes-1)
					sum := x.Intercept + x.Imputed + x.Cosines
					for _, term := range x.Terms {
						sum += term.Contribution
					}
					if math.Abs(sum-x.Score) > 1e-9 || math.Abs(x.Score-want[len(want)-1]) > 1e-9 || x.Cosines == 0 && held.Cosines.Factors[m.Handling(e).Range] > 0 {
						t.Fatalf("%s: explained by %v of %v, cosines %v", at, sum, want, x.Cosines)
					}
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
	if c := l.Snapshot().Model().Cosines; c != nil && c.Factors[0] > 0.05 {
		t.Errorf("cosines of a line have the factor %v", c.Factors)
	}
	if kept := l.KeepsCosines(); kept != nil {
		t.Errorf("the part of an earlier event stays after %v", kept)
	}
}
