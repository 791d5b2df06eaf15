package simulate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"blankout"
)

// stream returns examples of informative and useless features, and the model of
// the weights that made the labels.
func stream(classes, n int, seed uint64) (*blankout.Model, []blankout.Example) {
	const columns = 12
	r := rand.New(rand.NewPCG(seed, 1))
	outputs := classes
	if classes == 2 {
		outputs = 1
	}
	weights := make([][]float64, outputs)
	for k := range weights {
		weights[k] = make([]float64, columns)
		for d := range columns {
			weights[k][d] = r.NormFloat64()
		}
	}
	var names []string
	for k := range classes {
		names = append(names, fmt.Sprint("class ", k))
	}
	m := blankout.NewModel(blankout.NewSchema(10, names, 0), "logistic:gaussian", "none", weights, make([]float64, outputs))
	examples := make([]blankout.Example, n)
	for i := range examples {
		e := &examples[i]
		e.Weight = 1
		for d := range uint32(columns) {
			if r.IntN(3) > 0 {
				e.Features.Index = append(e.Features.Index, d)
				e.Features.Value = append(e.Features.Value, r.NormFloat64())
			}
		}
		e.Label = m.Predict(m.Score(e, make([]float64, outputs)))
	}
	return m, examples
}

func ExampleError() {
	m, examples := stream(2, 2000, 1)
	for _, s := range []string{"random:0", "random:0.5", "worst:1"} {
		nightmare, _ := Parse(s)
		fmt.Printf("%s %.0f %%\n", nightmare, 100*Error(m, examples, nightmare))
	}
	// Output:
	// random:0 0 %
	// random:0.5 26 %
	// worst:1 45 %
}

// TestWorst compares the choice of features with every possible one.
func TestWorst(t *testing.T) {
	for _, classes := range []int{2, 4} {
		m, examples := stream(classes, 60, 3)
		scores := make([]float64, m.Outputs)
		margin := func(x blankout.Vec, class int) float64 {
			s := m.ScoreVec(x, scores)
			if len(s) == 1 {
				return s[0] * float64(2*class-1)
			}
			best := math.Inf(1)
			for k, f := range s {
				if k != class {
					best = min(best, s[class]-f)
				}
			}
			return best
		}
		for k := range 4 {
			for n := range examples {
				e := &examples[n]
				want := math.Inf(1)
				for mask := range 1 << e.Features.Len() {
					x, dead := e.Features.Clone(), 0
					for i := range x.Value {
						if mask>>i&1 == 1 {
							x.Value[i] = 0
							dead++
						}
					}
					if dead <= k {
						want = min(want, margin(x, e.Label))
					}
				}
				x := e.Features.Clone()
				Worst{k}.Strike(m, x, e.Label, n)
				if got := margin(x, e.Label); math.Abs(got-want) > 1e-12 {
					t.Fatalf("%d classes, K=%d, example %d: margin %g, the lowest is %g", classes, k, n, got, want)
				}
			}
		}
	}
}

// TestRandom: shares are met, every model meets the same masks, and survivors
// keep the mean of the score.
func TestRandom(t *testing.T) {
	const n = 4000
	_, examples := stream(2, n, 5)
	for _, keep := range []bool{false, true} {
		dead, all, sum, want := 0, 0, 0.0, 0.0
		for i := range examples {
			x, again := examples[i].Features.Clone(), examples[i].Features.Clone()
			Random{Share: 0.3, Keep: keep, Seed: 7}.Strike(nil, x, 0, i)
			Random{Share: 0.3, Keep: keep, Seed: 7}.Strike(nil, again, 0, i)
			for j, v := range x.Value {
				if v != again.Value[j] {
					t.Fatal("another mask at the second time")
				}
				if all++; v == 0 {
					dead++
				} else if was := examples[i].Features.Value[j]; keep && v != was {
					t.Fatalf("a survivor is %g, was %g", v, was)
				}
				sum += math.Abs(v)
				want += math.Abs(examples[i].Features.Value[j])
			}
		}
		if share := float64(dead) / float64(all); math.Abs(share-0.3) > 0.02 {
			t.Errorf("keep %v: a share of %g died", keep, share)
		}
		if ratio := sum / want; !keep && math.Abs(ratio-1) > 0.02 {
			t.Errorf("the mean changed by a factor of %g", ratio)
		}
	}
}

func TestParse(t *testing.T) {
	for _, s := range []string{"random:0.5", "random:0", "worst:3"} {
		if n, err := Parse(s); err != nil || n.String() != s {
			t.Errorf("Parse(%q) = %v, %v", s, n, err)
		}
	}
	for _, s := range []string{"", "random", "random:1", "random:NaN", "worst:-1", "worst:x", "burst"} {
		if n, err := Parse(s); err == nil {
			t.Errorf("Parse(%q) = %v, want an error", s, n)
		}
	}
}
