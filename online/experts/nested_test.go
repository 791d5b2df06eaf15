package experts_test

import (
	"fmt"
	"math"
	"testing"

	"blankout/online/encode"
)

// TestNestedScores compares the mixed scores of nested copies with those of Score for each copy.
func TestNestedScores(t *testing.T) {
	const copies = 10
	for _, outputs := range []int{1, 3, 17} {
		t.Run(fmt.Sprintf("outputs=%d", outputs), func(t *testing.T) {
			x, s := newExperts(settings(outputs, true)), newNumbers(3, 6, outputs)
			s.learn(x, 1200)
			if x.Numbers() == len(x.Columns()) {
				t.Fatal("there are no splines")
			}
			nested, scores, got, want := x.NewNested(copies), make([]float64, x.Size()), make([]float64, outputs), make([]float64, outputs)
			for range 20 {
				s.next(x)
				var last []int8
				for range s.in.Features() {
					last = append(last, int8(s.r.IntN(copies+1)-1))
				}
				x.SumNested(&s.in, last, &nested)
				for copy := 1; copy < copies; copy++ {
					var dead []bool
					for _, until := range last {
						dead = append(dead, int(until) < copy)
					}
					var in encode.Input
					s.in.Mask(dead, &in)
					x.ScoreNested(&nested, copy, s.base, got)
					x.Read(&in, &s.seen)
					x.Score(&s.seen, s.base, scores, want)
					for k := range want {
						if math.Abs(got[k]-want[k]) > 1e-9*(1+math.Abs(want[k])) {
							t.Fatalf("copy %d, output %d: %v, want %v", copy, k, got[k], want[k])
						}
					}
				}
			}
		})
	}
}
