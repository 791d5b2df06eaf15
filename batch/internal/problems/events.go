package problems

import (
	"fmt"
	"math/rand/v2"

	"blankout/internal/event"
)

// Several returns n events of k classes with numeric features. The mean of feature j is larger in class j%k than in the
// other classes.
func Several(k, n int) (*event.Schema, []event.Example) {
	r := rand.New(rand.NewPCG(1, 2))
	var classes []string
	for c := range k {
		classes = append(classes, fmt.Sprint("c", c))
	}
	schema := event.NewSchema(10, classes, k)
	for i := range 20 {
		schema.AddField(event.Field{Name: fmt.Sprint("f", i), Kind: event.Numeric, Group: []string{"left", "right"}[i/10]})
	}
	var all []event.Example
	for i := range n {
		e := event.Example{Label: i % k, Weight: 1, Offset: int64(i)}
		for j := range 20 {
			x := 3 + 2*r.NormFloat64()
			if j%k == e.Label {
				x += 3
			}
			e.Features.Index = append(e.Features.Index, uint32(j))
			e.Features.Value = append(e.Features.Value, x)
			e.Field = append(e.Field, uint16(j+1))
		}
		all = append(all, e)
	}
	return schema, all
}
