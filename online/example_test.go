package online_test

import (
	"fmt"

	"blankout/internal/event"
	"blankout/internal/model"
	"blankout/online"
)

// Example trains a Learner for two classes with events that are built in code. The first two columns are equal, and the
// third is slightly less informative.
func Example() {
	schema := event.NewSchema(4, []string{"fine", "broken"}, 2)
	config := online.DefaultConfig()
	config.Noise = "dropout:0.5" // expects that half of the sensors may fail
	learner, err := online.New(config, schema)
	if err != nil {
		fmt.Println(err)
		return
	}
	for i := range 1000 {
		e := event.Example{Weight: 1, Label: i % 2}
		third := e.Label
		if i%10 == 0 {
			third = 1 - third
		}
		e.Features.Index = []uint32{uint32(e.Label), 2 + uint32(e.Label), 4 + uint32(third)}
		e.Features.Value = []float64{1, 1, 1}
		learner.Learn(&e, nil)
	}
	fmt.Printf("progressive error %.1f %%\n", 100*learner.Report().Total.Error())

	m := learner.Snapshot().Model() // immutable, safe for other goroutines
	only := event.Example{Features: event.Vec{Index: []uint32{5}, Value: []float64{1}}}
	class := model.Predict(m.Score(&only, make([]float64, 1)))
	fmt.Println("with the first two sensors gone:", schema.Classes[class])
	// Output:
	// progressive error 0.1 %
	// with the first two sensors gone: broken
}
