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
// the given label was answered. sized says that the size of its set is to be found, shared that the
// learner is one of several, see Add.
func (c *Cover) TakeClasses(r int, scores []float64, label int, d model.Decision, active int, sized, shared bool) {
	limit, class := c.Limit(r), d.Predict(scores)
	x := Score{Value: min(d.LogLoss(scores, label), model.MostLimit), First: class == label, Size: math.NaN()}
	if sized && limit >= 0 {
		x.Size = 1
		if n := max(2, len(scores)); len(c.chances) != n {
			c.chances = make([]float64, n)
		}
		c.chances = d.Probabilities(scores, c.chances)
		least := math.Exp(-limit)
		for k, p := range c.chances[:max(2, active)] {
			if k != class && (p >= least || limit == model.MostLimit) {
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
