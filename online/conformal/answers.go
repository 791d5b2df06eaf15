package conformal

// This file computes the nonconformity scores of predictions. The methods of a nil Predictor ignore all events.

import (
	"math"

	"blankout/internal/coder"
	"blankout/internal/loss"
	"blankout/internal/model"
)

// Answer is a predicted classification of an event, with its label.
type Answer struct {
	Range    int // range of the missing fraction
	Scores   []float64
	Label    int
	Decision model.Decision // turns the scores into a class
	Judged   model.Judged   // the prediction made from the scores
	Active   int            // number of classes in use
	Sized    bool           // whether to measure the size of the prediction set
	Came     bool           // false for a copy with masked fields
}

// TakeClasses adds the nonconformity score of a classification.
func (c *Predictor) TakeClasses(a Answer) {
	x := Score{Value: min(a.Judged.LogLoss, model.MostLimit), First: a.Judged.Class == a.Label, Class: 1 + a.Label, Came: a.Came, Size: math.NaN()}
	if a.Sized && c.ranges[a.Range].limit >= 0 {
		x.Size = c.size(&a)
	}
	c.Take(a.Range, x)
}

// size returns the size of the prediction set of an Answer.
func (c *Predictor) size(a *Answer) float64 {
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

// TakeNumber adds the nonconformity score of the predicted value for the target y, for regression.
func (c *Predictor) TakeNumber(of loss.Target, residual *model.Residual, y, value float64, by model.MissingVariance) {
	low, high := residual.Interval(of, value, by.Variance, c.Limit(by.Range))
	c.Take(by.Range, Score{Value: residual.Score(of, y, value, by.Variance), Size: high - low})
}

// Interval returns the prediction interval around a value. The result is NaN if no residual has been learned.
func (c *Predictor) Interval(of loss.Target, residual *model.Residual, value float64, by model.MissingVariance) (low, high float64) {
	switch {
	case residual == nil:
		return math.NaN(), math.NaN()
	case c == nil:
		return residual.Interval(of, value, by.Variance, -1)
	}
	return residual.Interval(of, value, by.Variance, c.served(by.Range))
}

// Encode returns the encoded state.
func (c *Predictor) Encode() []byte {
	if c == nil {
		return nil
	}
	return coder.Encode(c.State)
}

// Decode reads the result of Encode. It returns false if data is invalid.
func (c *Predictor) Decode(data []byte) (ok bool) {
	if c == nil {
		return true
	}
	from := coder.Read(data)
	c.State(from)
	return from.Done()
}
