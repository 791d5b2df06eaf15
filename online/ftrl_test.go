package online_test

import (
	"math"
	"testing"

	"blankout/internal/loss"
	"blankout/internal/must"
	"blankout/online"
	"blankout/online/synthetic"
)

// Compares FTRL-Proximal with algorithm 1 of its paper, coordinate by coordinate. Features have both penalties. The
// intercept has the ridge if it is penalized, and otherwise none.
func TestFTRLAgainstItsDefinition(t *testing.T) {
	const l1, eta, columns = 0.4, 0.3, 60
	for _, intercept := range []string{"free", "penalized", "none"} {
		c := online.DefaultConfig()
		c.Optimizer, c.Loss, c.Noise, c.Standardize, c.Average = "ftrl", "logistic", "none", "none", 0
		c.C, c.L1, c.LearningRate, c.Intercept = 0.02, l1, eta, intercept
		l := mustNew(t, c, 2)
		of := must.Get(loss.Parse(c.Loss))
		h0 := 2 / loss.Cost(of, c.C)
		var z, squares [columns + 1]float64 // the intercept is last
		weight := func(i int) float64 {
			penalty, ridge := l1, h0
			if i == columns {
				penalty = 0
				if intercept == "free" {
					ridge = 0
				}
			}
			if math.Abs(z[i]) <= penalty {
				return 0
			}
			sign := math.Copysign(1, z[i])
			return -(z[i] - sign*penalty) / (math.Sqrt(squares[i])/eta + 1/eta + ridge)
		}
		s := synthetic.NewStream(23, 2)
		for n := range 300 {
			e := s.Next()
			e.Weight = 1
			for i := range e.Features.Value { // of moderate size
				e.Features.Value[i] /= 1 + math.Abs(e.Features.Value[i])/3
			}
			index, value := e.Features.Index, e.Features.Value
			if intercept != "none" {
				index, value = append(index, columns), append(value, 1)
			}
			f := 0.0
			for j, i := range index {
				f += weight(int(i)) * value[j]
			}
			y := float64(2*e.Label - 1)
			if got := l.Learn(e, nil).Scores[0]; math.Abs(got-f) > 1e-6*(1+math.Abs(f)) {
				t.Fatalf("intercept %s, event %d: score %v, want %v", intercept, n, got, f)
			}
			for j, i := range index {
				g := -y / (1 + math.Exp(y*f)) * value[j]
				sigma := (math.Sqrt(squares[i]+g*g) - math.Sqrt(squares[i])) / eta
				z[i] += g - sigma*weight(int(i))
				squares[i] += g * g
			}
		}
		zero := 0
		for i := range columns {
			if squares[i] > 0 && weight(i) == 0 {
				zero++
			}
		}
		if zero == 0 || weight(columns) == 0 && intercept != "none" {
			t.Errorf("%d weights are 0, the intercept is %v", zero, weight(columns))
		}
	}
}
