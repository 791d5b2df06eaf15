package conformal_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/online/conformal"
)

// TestTakeNumber checks that prediction intervals contain the target as often as configured, and that the counts refer
// to the returned interval.
func TestTakeNumber(t *testing.T) {
	r, c := rand.New(rand.NewPCG(3, 4)), conformal.New(0.7)
	residual := &model.Residual{Deviation: 2}
	held, used, size := 0.0, 0.0, 0.0
	for range 10_000 {
		c.TakeNumber(loss.Real, residual, 5+0.1*r.NormFloat64(), 5, model.MissingVariance{}) // with no missing fields
		by := model.MissingVariance{Range: 2}
		y, value := 5+3*r.NormFloat64(), 5.0
		low, high := c.Interval(loss.Real, residual, value, by)
		if c.Limit(2) >= 0 {
			size += high - low
			if used++; low <= y && y <= high {
				held++
			}
		}
		c.TakeNumber(loss.Real, residual, y, value, by)
	}
	if x := c.Report()[1]; x.Events != used || math.Abs(x.Coverage-held/used) > 1e-12 || math.Abs(held/used-0.7) > 0.02 || math.Abs(x.Size-size/used) > 0.1*x.Size {
		t.Errorf("%+v, want %v of %v", x, held/used, used)
	}
	if low, _ := c.Interval(loss.Real, nil, 5, model.MissingVariance{}); low == low {
		t.Error("an interval of nothing known")
	}
	var none *conformal.Predictor
	if low, high := none.Interval(loss.Real, residual, 5, model.MissingVariance{}); !(low < 5 && high > 5) {
		t.Errorf("without a Cover the interval is %v, %v", low, high)
	}
}
