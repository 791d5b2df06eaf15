package synthetic

import (
	"math"
	"math/rand/v2"

	"blankout/internal/event"
)

// StaleEvents returns events of four correlated numbers whose relation to the class rotates. If there are more than two
// classes, the third and fourth first appear at the 1,500th event.
func StaleEvents(n, classes int) (out []*event.Example) {
	_, ids := NumberFields(4)
	r := rand.New(rand.NewPCG(7, uint64(classes)))
	for i := range n {
		common, x := r.NormFloat64(), make([]float64, 4)
		for j := range x {
			x[j] = 5 + 3*(common+r.NormFloat64())
		}
		turn := float64(i) / 4000
		f := (math.Cos(turn)*(x[0]-5) + math.Sin(turn)*(x[1]-5)) / 4
		label := 0
		if f+.5*r.NormFloat64() > 0 {
			label = 1
		}
		if classes > 2 && i > 1500 {
			label += 2 * r.IntN(2)
			x[2] += 4 * float64(label/2)
		}
		e := NumbersEvent(ids, label, x)
		if e.Weight = 1; i%5 == 0 {
			e.Weight = 2.5
		}
		if i%3 == 0 {
			e = &event.Example{Label: e.Label, Weight: e.Weight, Field: ids[:3], Missing: ids[3:], Features: event.Vec{Index: e.Features.Index[:3], Value: e.Features.Value[:3]}}
		}
		out = append(out, e)
	}
	return out
}
