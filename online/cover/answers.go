package cover

// This file makes scores of answers. A nil Cover is one of answers without sets: it knows nothing and
// takes nothing.

import (
	"math"

	"blankout/internal/coder"
	"blankout/loss"
	"blankout/model"
)

// TakeClasses takes up scores of classes, of which the first active ones are in use, that an event of
// the given label was answered, and what they come to. sized says that the size of its set is to be found, shared
// that the learner is one of several, see Add.
func (c *Cover) TakeClasses(r int, scores []float64, label int, d model.Decision, j model.Judged, active int, sized, shared bool) {
	s := &c.ranges[r]
	x := Score{Value: min(j.LogLoss, model.MostLimit), First: j.Class == label, Size: math.NaN()}
	if sized && s.limit >= 0 {
		x.Size = 1
		two := [2]float64{1 - j.Probability, j.Probability}
		chances := two[:]
		if n := len(scores); n > 1 {
			if len(c.chances) != n {
				c.chances = make([]float64, n)
			}
			chances = d.Probabilities(scores, c.chances)[:max(2, active)]
		}
		for k, p := range chances {
			if k != j.Class && (p >= s.least || s.limit == model.MostLimit) {
				x.Size++
			}
		}
	}
	if shared {
		c.Add(r, x)
	} else {
		c.Take(r, x)
	}
}

// TakeNumber takes up a value that was answered for the target y.
func (c *Cover) TakeNumber(of loss.Target, residual *model.Residual, y, value float64, by model.Lacked) {
	low, high := residual.Interval(of, value, by.Variance, c.Limit(by.Range))
	c.Take(by.Range, Score{Value: residual.Score(of, y, value, by.Variance), Size: high - low})
}

// Interval returns the interval of a value, NaN where no residual is known.
func (c *Cover) Interval(of loss.Target, residual *model.Residual, value float64, by model.Lacked) (low, high float64) {
	switch {
	case residual == nil:
		return math.NaN(), math.NaN()
	case c == nil:
		return residual.Interval(of, value, by.Variance, -1)
	}
	return residual.Interval(of, value, by.Variance, c.Sets().Limits[by.Range])
}

// Encode returns the state.
func (c *Cover) Encode() []byte {
	if c == nil {
		return nil
	}
	to := &coder.Coder{}
	c.State(to)
	return to.Out
}

// Decode takes up what Encode has returned. It says whether that is a state.
func (c *Cover) Decode(data []byte) (ok bool) {
	if c == nil {
		return true
	}
	from := coder.Read(data)
	c.State(from)
	return from.Done()
}
