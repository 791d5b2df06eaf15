package cover

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout/internal/loss"
	"blankout/internal/model"
)

// Sets of three classes hold the class as often as asked for and have the size that is counted, by the
// probabilities themselves; without a Cover there are none.
func TestTakeClasses(t *testing.T) {
	r, c := rand.New(rand.NewPCG(1, 2)), New(0.8)
	d := model.Decision{}
	held, told, size := 0.0, 0.0, 0.0
	for range 20_000 {
		label := r.IntN(3)
		scores := []float64{r.NormFloat64(), r.NormFloat64(), r.NormFloat64(), -20}
		scores[label] += 1.5
		if c.Limit(1) >= 0 {
			told++
			h := model.Head{Sets: c.Sets()}
			set, _ := h.Set(model.Answer{Range: 1}, d.Probabilities(scores, make([]float64, 4))[:3], d.Predict(scores))
			if size += float64(len(set)); slices.Contains(set, label) {
				held++
			}
		}
		c.TakeClasses(Answer{Range: 1, Scores: scores, Label: label, Decision: d, Judged: d.Judge(scores, label), Active: 3, Sized: true})
	}
	x := c.Report()[0]
	if x.Events != told || math.Abs(x.Coverage-held/told) > 1e-12 || math.Abs(x.Recent-0.8) > 0.03 || math.Abs(x.Size-size/told) > 0.05 {
		t.Errorf("%+v, want %v of %v and a size of %v", x, held/told, told, size/told)
	}
	all := New(0.8) // which tells of all classes, but of those in use alone
	all.ranges[0].limit = model.MostLimit
	scores := []float64{1, 2, 3, -20}
	if all.TakeClasses(Answer{Scores: scores, Decision: d, Judged: d.Judge(scores, 0), Active: 3, Sized: true}); all.Report()[0].Size != 3 {
		t.Errorf("%+v, want a size of 3", all.Report()[0])
	}
	var none *Cover
	if none.Report() != nil || none.Sums() != nil || none.Sets() != nil || none.Encode() != nil || none.Low() != nil || !none.Decode([]byte{1}) {
		t.Error("without a Cover there is one")
	}
	again := New(0.8)
	if !again.Decode(c.Encode()) || again.Limit(1) != c.Limit(1) || again.Decode(c.Encode()[1:]) {
		t.Error("the state does not come back")
	}
}

// Intervals of numbers hold the target as often as asked for; the one that is told is the one that counts.
func TestTakeNumber(t *testing.T) {
	r, c := rand.New(rand.NewPCG(3, 4)), New(0.7)
	residual := &model.Residual{Deviation: 2}
	held, told, size := 0.0, 0.0, 0.0
	for range 10_000 {
		c.TakeNumber(loss.Real, residual, 5+0.1*r.NormFloat64(), 5, model.Lacked{}) // of whole events
		by := model.Lacked{Range: 2}
		y, value := 5+3*r.NormFloat64(), 5.0
		low, high := c.Interval(loss.Real, residual, value, by)
		if c.Limit(2) >= 0 {
			size += high - low
			if told++; low <= y && y <= high {
				held++
			}
		}
		c.TakeNumber(loss.Real, residual, y, value, by)
	}
	if x := c.Report()[1]; x.Events != told || math.Abs(x.Coverage-held/told) > 1e-12 || math.Abs(held/told-0.7) > 0.02 || math.Abs(x.Size-size/told) > 0.1*x.Size {
		t.Errorf("%+v, want %v of %v", x, held/told, told)
	}
	if low, _ := c.Interval(loss.Real, nil, 5, model.Lacked{}); low == low {
		t.Error("an interval of nothing known")
	}
	var none *Cover
	if low, high := none.Interval(loss.Real, residual, 5, model.Lacked{}); !(low < 5 && high > 5) {
		t.Errorf("without a Cover the interval is %v, %v", low, high)
	}
}
