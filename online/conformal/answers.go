package conformal

// This file makes scores of answers. A nil Cover is one of answers without sets: it knows nothing and
// takes nothing.

import (
	"math"

	"blankout/internal/coder"
	"blankout/internal/loss"
	"blankout/internal/model"
)

// Answer is what an event of a class was answered.
type Answer struct {
	Range    int // of what is missing
	Scores   []float64
	Label    int
	Decision model.Decision // of the scores
	Judged   model.Judged   // what the scores come to
	Active   int            // the first classes are in use
	Sized    bool           // the size of the set is to be found
	Came     bool           // the event came so: no mask deleted anything
	Shared   bool           // the learner is one of several, see Add
}

// TakeClasses takes up an answer of classes.
func (c *Cover) TakeClasses(a Answer) {
	x := Score{Value: min(a.Judged.LogLoss, model.MostLimit), First: a.Judged.Class == a.Label, Class: 1 + a.Label, Came: a.Came, Size: math.NaN()}
	if a.Sized && c.ranges[a.Range].limit >= 0 {
		x.Size = c.size(&a)
	}
	if a.Shared {
		c.Add(a.Range, x)
	} else {
		c.Take(a.Range, x)
	}
}

// size returns the number of classes in the set of an answer.
func (c *Cover) size(a *Answer) float64 {
	two := [2]float64{1 - a.Judged.Probability, a.Judged.Probability}
	chances := two[:]
	if n := len(a.Scores); n > 1 {
		if len(c.chances) != n {
			c.chances = make([]float64, n)
		}
		chances = a.Decision.Probabilities(a.Scores, c.chances)[:max(2, a.Active)]
	}
	size := 1.0
	for k, p := range chances {
		if least, always := c.least(a.Range, k); k != a.Judged.Class && (p >= least || always) {
			size++
		}
	}
	return size
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
	return residual.Interval(of, value, by.Variance, c.served(by.Range))
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
