package levels_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"blankout/internal/loss"
	"blankout/online/encode"
	"blankout/online/levels"
	"blankout/online/optimizers"
)

// TestNestedScores compares the results of ScoreNested with those of Score for each copy.
func TestNestedScores(t *testing.T) {
	const copies = 10
	adagrad, _ := optimizers.Find("adagrad")
	for _, outputs := range []int{1, 2, 7} {
		t.Run(fmt.Sprintf("outputs=%d", outputs), func(t *testing.T) {
			x := levels.New(levels.Settings{
				Optimizer: adagrad, Loss: loss.LogisticGaussian{}, Noises: []loss.Noise{loss.Dropout{}, loss.Dropout{Q: 0.5}},
				Outputs: outputs, Rate: 0.1, Start: 1, Intercept: true,
			})
			r := rand.New(rand.NewPCG(1, uint64(outputs)))
			for _, features := range []int{0, 1, 13, 200} {
				in, last := randomInput(r, x.Width(outputs, 0), features)
				nested, want := x.NewNested(copies), x.NewScores()
				for range 2 { // the second time reuses memory
					x.ScoreNested(in, last, &nested)
				}
				for i := 1; i < copies; i++ {
					x.Score(deadCopy(in, last, i), &want)
					for j := range want.Iterate {
						if got := nested.At[i]; !near(got.Iterate[j], want.Iterate[j]) || !near(got.Lag[j], want.Lag[j]) {
							t.Fatalf("%d features, copy %d, value %d: %v and %v, want %v and %v", features, i, j, got.Iterate[j], got.Lag[j], want.Iterate[j], want.Lag[j])
						}
					}
				}
			}
		})
	}
}

// randomInput returns an event with random rows and values, and the last copy in which each feature is present.
func randomInput(r *rand.Rand, width, features int) (in *encode.Input, last []int8) {
	in = &encode.Input{}
	for i := range features + 1 {
		row := make([]float64, width)
		for k := range row {
			row[k] = r.NormFloat64()
		}
		in.Rows, in.X = append(in.Rows, row), append(in.X, r.NormFloat64())
		if i == features {
			in.X[i] = 1
			break
		}
		in.Columns, in.Raw = append(in.Columns, uint32(i)), append(in.Raw, 0)
		last = append(last, int8(r.IntN(11)-1))
	}
	return in, last
}

// deadCopy returns the copy of an event with the index copy, without the features whose last copy is an earlier one.
func deadCopy(in *encode.Input, last []int8, copy int) *encode.Input {
	var dead []bool
	for _, until := range last {
		dead = append(dead, int(until) < copy)
	}
	out := &encode.Input{}
	in.Mask(dead, out)
	return out
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-12*(1+math.Abs(b)) }
