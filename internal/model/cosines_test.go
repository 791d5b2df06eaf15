package model

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestCosineValues compares the cosines with math.Cos, and the assembly with Go bit by bit.
func TestCosineValues(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, columns := range [][]uint32{{0, 7}, {1, 2, 3, 9, 11, 12, 20}} {
		b := NewCosineBasis(columns)
		for range 50 {
			var z CosineNumbers
			for i := range columns {
				z[i] = 3 * r.NormFloat64()
			}
			var got, inGo [Cosines]float64
			b.Values(&z, &got)
			for j := range got {
				phase, used, frequencies := b.Shape(j)
				x := phase
				for i, f := range frequencies {
					for place, column := range columns {
						if column == used[i] {
							x += f * z[place]
						}
					}
				}
				if want := math.Cos(2 * math.Pi * x); math.Abs(got[j]-want) > 1e-12 {
					t.Fatalf("cosine %d of %d columns: %v, want %v", j, len(columns), got[j], want)
				}
				inGo[j] = x
			}
			inAssembly := inGo
			takeCosines(&inAssembly)
			if takeCosinesGo(&inGo); inGo != inAssembly {
				t.Fatal("the assembly and Go differ")
			}
		}
	}
}
