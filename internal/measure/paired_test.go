package measure_test

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"

	"blankout/internal/loss"
	"blankout/internal/measure"
	"blankout/internal/must"
)

// slowDifference returns the mean and the standard error over the blocks of the records whose number is greater than
// from and at most to. It is the slow reference for Difference.
func slowDifference(differences, weights []float64, from, to int) (blocks int, mean, standardError float64) {
	var means []float64
	for start := from; start+measure.BlockRecords <= to; start += measure.BlockRecords {
		sum, weight := 0.0, 0.0
		for i := start; i < start+measure.BlockRecords; i++ {
			if !math.IsNaN(differences[i]) {
				sum, weight = sum+weights[i]*differences[i], weight+weights[i]
			}
		}
		if weight > 0 {
			means = append(means, sum/weight)
		}
	}
	for _, m := range means {
		mean += m / float64(len(means))
	}
	squares := 0.0
	for _, m := range means {
		squares += (m - mean) * (m - mean)
	}
	n := float64(len(means))
	return len(means), mean, math.Sqrt(squares / (n - 1) / n)
}

func TestPaired(t *testing.T) {
	const window = 5000
	random := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct{ begun, records int }{{0, 33_333}, {1, 20_000}, {4000, 30_000}, {12_345, 40_000}, {10_000, 25_000}, {500, 900}, {12_345, 16_000}, {12_345, 21_000}} {
		differences, weights := make([]float64, c.records), make([]float64, c.records)
		for i := range differences {
			differences[i], weights[i] = random.NormFloat64()+math.Sin(float64(i)/3000), random.Float64()
			if random.IntN(10) == 0 || i >= 16_000 && i < 18_000 { // two blocks without differences
				differences[i] = math.NaN()
			}
		}
		p, again := measure.NewPaired(uint64(c.begun)), measure.NewPaired(uint64(c.begun))
		for i := c.begun; i < c.records; i++ {
			p.Add(uint64(i+1), differences[i], weights[i], window)
			if !math.IsNaN(differences[i]) || random.IntN(3) == 0 {
				again.Add(uint64(i+1), differences[i], weights[i], window)
			} // without a difference, Add is not called for the record
			if random.IntN(500) == 0 { // as after a restart from a checkpoint
				again.Advance(uint64(i+1), window)
				data := must.Get(json.Marshal(again))(t)
				again = measure.Paired{}
				must.Do(t, json.Unmarshal(data, &again))
			}
		}
		again.Advance(uint64(c.records), window)
		must.True(t, p == again, "%+v: %+v with every record, %+v with restarts and without some", c, p, again)
		from := (c.begun + 999) / 1000 * 1000
		end := c.records / window * window
		for name, x := range map[string]struct {
			got      measure.Difference
			from, to int
		}{"total": {p.Total, from, c.records}, "window": {p.Window, end - window, end}, "before": {p.Before, end - 2*window, end - window}} {
			if name != "total" && x.from < from {
				must.True(t, x.got.Blocks <= 0, "%+v: %s has %d blocks, but it was not seen whole", c, name, x.got.Blocks)
				continue
			}
			blocks, mean, standardError := slowDifference(differences, weights, x.from, x.to)
			near := func(a, b float64) bool { return math.Abs(a-b) < 1e-9 || blocks < 2 }
			must.True(t, int(x.got.Blocks) == blocks && near(x.got.Mean, mean) && near(x.got.StandardError(), standardError),
				"%+v: %s is %d blocks, %v ± %v, slowly %d, %v ± %v", c, name, x.got.Blocks, x.got.Mean, x.got.StandardError(), blocks, mean, standardError)
		}
	}
}

// TestPairedBetter checks that Better needs two better windows, and is true only at the end of a window.
func TestPairedBetter(t *testing.T) {
	const window = 10_000
	random := rand.New(rand.NewPCG(3, 4))
	p := measure.NewPaired(0)
	var at []uint64
	for i := uint64(1); i <= 45_000; i++ {
		shift := must.Either(i > 20_000 && i <= 30_000, 0, -0.1)
		p.Add(i, shift+random.NormFloat64(), 1, window)
		if p.Better(window) {
			at = append(at, i)
		}
	}
	must.True(t, len(at) == 1 && at[0] == 20_000, "better at %d, want 20000: the third window is no better", at)
	for _, c := range []struct {
		blocks uint64
		errors float64 // by which the mean is below 0
		want   bool
	}{{1, 1e9, false}, {2, 1e9, false}, {7, 1e9, false}, {8, 4.4, false}, {8, 4.6, true}, {9, 0, false}, {20, 3.4, false}, {20, 3.5, true}, {10_000, 2.99, false}, {10_000, 3.01, true}} {
		n := float64(c.blocks)
		d := measure.Difference{Blocks: c.blocks, Mean: -c.errors, Scatter: n * (n - 1)} // the standard error is 1
		must.Equal(t, d.Better(), c.want, c.blocks, "blocks", c.errors, "standard errors")
	}
}

// TestApart checks that the texts of different numbers differ.
func TestApart(t *testing.T) {
	for _, c := range []struct {
		a, b         float64
		wantA, wantB string
	}{{1, 1.00004, "1", "1.00004"}, {0.69316, 0.69319, "0.69316", "0.69319"}, {2.5, 3, "2.5", "3"}, {1, 1, "1", "1"}, {1e9, 1e9 + 1, "1000000000", "1000000001"}} {
		a, b := measure.Apart(c.a, c.b, 4)
		must.True(t, a == c.wantA && b == c.wantB, "%v and %v: %s and %s, want %s and %s", c.a, c.b, a, b, c.wantA, c.wantB)
	}
}

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
		l := must.Get(loss.Parse(name))(t)
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
		coverage := must.Either(name == "quantile:0.8", below/weight, within/asked)
		near := func(what string, got *float64, want float64) {
			t.Helper()
			must.True(t, got != nil && math.Abs(*got-want) <= 1e-9*(1+math.Abs(want)), "%s: %s %v, want %v", name, what, got, want)
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
	must.Equal(t, none.Report(loss.Quantile{}), (measure.NumbersReport{}), "without events")
}
