package measure_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"blankout/internal/loss"
	"blankout/internal/measure"
)

// seen is one call of Numbers.Add.
type seen struct{ y, weight, value, low, high float64 }

func draw(r *rand.Rand, n int, counts bool) (all []seen) {
	for range n {
		s := seen{3*r.NormFloat64() + 100, float64(r.IntN(4)), 3*r.NormFloat64() + 100, math.NaN(), math.NaN()}
		if counts {
			s.y, s.value = float64(r.IntN(5)), math.Exp(r.NormFloat64())
		}
		if r.IntN(4) > 0 {
			s.low, s.high = s.value-r.Float64()*4, s.value+r.Float64()*4
		}
		all = append(all, s)
	}
	return all
}

// TestNumbers compares the measures with their definitions over the whole weighted history of events. It also checks
// that merged parts equal one Numbers of all events.
func TestNumbers(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for name, keep := range map[string]float64{"squared": 1, "quantile:0.8": 0.97, "poisson": 0.9, "huber:1": 1} {
		l, err := loss.Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		all := draw(r, 300, name == "poisson")
		var n, part measure.Numbers
		for i, s := range all {
			n.Add(l, s.y, s.weight, s.value, s.low, s.high, keep)
			if keep == 1 && i >= 120 {
				part.Add(l, s.y, s.weight, s.value, s.low, s.high, 1)
			}
		}
		var weight, absolute, squared, below, asked, within, mean, scatter, deviance float64
		for i, s := range all {
			w := s.weight * math.Pow(keep, float64(len(all)-1-i))
			weight += w
			absolute += w * math.Abs(s.y-s.value)
			squared += w * (s.y - s.value) * (s.y - s.value)
			mean += w * s.y
			if s.y <= s.value {
				below += w
			}
			if s.low <= s.high {
				asked += w
				if s.low <= s.y && s.y <= s.high {
					within += w
				}
			}
			switch d := s.y - s.value; name {
			case "squared":
				deviance += w * d * d
			case "quantile:0.8":
				deviance += w * 2 * max(0.8*d, -0.2*d)
			case "huber:1":
				if math.Abs(d) <= 1 {
					deviance += w * d * d
				} else {
					deviance += w * (2*math.Abs(d) - 1)
				}
			case "poisson":
				deviance += w * 2 * (s.value - s.y)
				if s.y > 0 {
					deviance += w * 2 * s.y * math.Log(s.y/s.value)
				}
			}
		}
		mean /= weight
		for i, s := range all {
			scatter += s.weight * math.Pow(keep, float64(len(all)-1-i)) * (s.y - mean) * (s.y - mean)
		}
		coverage := within / asked
		if name == "quantile:0.8" {
			coverage = below / weight
		}
		near := func(what string, got *float64, want float64) {
			t.Helper()
			if got == nil || math.Abs(*got-want) > 1e-9*(1+math.Abs(want)) {
				t.Errorf("%s: %s %v, want %v", name, what, got, want)
			}
		}
		report := n.Report(l)
		near("MAE", report.MAE, absolute/weight)
		near("RMSE", report.RMSE, math.Sqrt(squared/weight))
		near("R2", report.R2, 1-squared/scatter)
		near("deviance", report.Deviance, deviance/weight)
		near("coverage", report.Coverage, coverage)
		if keep < 1 {
			continue
		}
		var first measure.Numbers
		for _, s := range all[:120] {
			first.Add(l, s.y, s.weight, s.value, s.low, s.high, 1)
		}
		first.Merge(&part)
		first.Merge(&measure.Numbers{})
		merged := first.Report(l)
		near("merged R2", merged.R2, 1-squared/scatter)
		near("merged MAE", merged.MAE, absolute/weight)
		near("merged coverage", merged.Coverage, coverage)
		near("merged mean", &first.Mean, mean)
	}
	var none measure.Numbers
	if r := none.Report(loss.Quantile{}); r != (measure.NumbersReport{}) {
		t.Errorf("without events: %+v", r)
	}
}
