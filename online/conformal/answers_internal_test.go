package conformal

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout/internal/model"
)

// TestTakeClasses checks prediction sets of three classes. They must contain the true class as often as configured, and
// their mean size must equal the counted size. A nil Predictor returns no sets.
func TestTakeClasses(t *testing.T) {
	r, c := rand.New(rand.NewPCG(1, 2)), New(0.8)
	d := model.Decision{}
	held, used, size := 0.0, 0.0, 0.0
	for range 20_000 {
		label := r.IntN(3)
		scores := []float64{r.NormFloat64(), r.NormFloat64(), r.NormFloat64(), -20}
		scores[label] += 1.5
		if c.Limit(1) >= 0 {
			used++
			h := model.Head{Sets: c.Sets()}
			set, _ := h.Set(model.MissingHandling{Range: 1}, d.Probabilities(scores, make([]float64, 4))[:3], d.Predict(scores))
			if size += float64(len(set)); slices.Contains(set, label) {
				held++
			}
		}
		c.TakeClasses(Answer{Range: 1, Scores: scores, Label: label, Decision: d, Judged: d.Judge(scores, label), Active: 3, Sized: true})
	}
	x := c.Report()[0]
	if x.Events != used || math.Abs(x.Coverage-held/used) > 1e-12 || math.Abs(x.Recent-0.8) > 0.03 || math.Abs(x.Size-size/used) > 0.05 {
		t.Errorf("%+v, want %v of %v and a size of %v", x, held/used, used, size/used)
	}
	all := New(0.8) // its sets contain every class in use
	all.ranges[0].limit = model.MostLimit
	scores := []float64{1, 2, 3, -20}
	if all.TakeClasses(Answer{Scores: scores, Decision: d, Judged: d.Judge(scores, 0), Active: 3, Sized: true}); all.Report()[0].Size != 3 {
		t.Errorf("%+v, want a size of 3", all.Report()[0])
	}
	var none *Predictor
	if none.Report() != nil || none.Sets() != nil || none.Encode() != nil || none.Low() != nil || !none.Decode([]byte{1}) {
		t.Error("without a Cover there is one")
	}
	again := New(0.8)
	if !again.Decode(c.Encode()) || again.Limit(1) != c.Limit(1) || again.Decode(c.Encode()[1:]) {
		t.Error("the state does not come back")
	}
}
