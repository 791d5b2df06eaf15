package online

import (
	"math"
	"testing"

	"blankout/internal/event"
	"blankout/internal/model"
)

// When a center moves, the intercept takes up a weight times the shift, and with it
// that weight's variance. Without the latter AROW would hold what it has taken up
// for certain and hardly learn it again.
func TestArowShift(t *testing.T) {
	c := DefaultConfig()
	c.Optimizer, c.Loss, c.Noise = "arow", "hinge", "none"
	l, err := New(c, event.NewSchema(10, []string{"-", "+"}, 2))
	if err != nil {
		t.Fatal(err)
	}
	l.touch([]uint32{3})
	row := l.table.Row(3)
	weight, variance := l.weights(row), row[model.ScalerWidth+l.n:]
	bias, biasVariance := l.weights(l.bias), l.bias[model.ScalerWidth+l.n:]
	weight[0], variance[0], bias[0], biasVariance[0] = 0.4, 0.25, 0.1, 0.01
	l.move(row, 1, 1.5)
	if got, want := bias[0], 0.1+0.4*1.5; math.Abs(got-want) > 1e-15 {
		t.Errorf("intercept %v, want %v", got, want)
	}
	if got, want := biasVariance[0], 0.01+0.25*1.5*1.5; math.Abs(got-want) > 1e-15 {
		t.Errorf("variance of the intercept %v, want %v", got, want)
	}
	if l.move(row, 1, 2); biasVariance[0] != 1 {
		t.Errorf("variance of the intercept %v, want at most what it starts from, 1", biasVariance[0])
	}
}
