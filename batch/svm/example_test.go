package svm_test

import (
	"context"
	"fmt"

	"blankout/batch"
	"blankout/batch/svm"
	"blankout/internal/event"
	"blankout/internal/model"
)

// The example trains on two classes: a disk and a ring around it. No line separates these classes, but a kernel machine
// does.
func ExampleTrain() {
	var b batch.Builder
	points := [][2]float64{{1, 0}, {0, 1}, {-1, 0}, {0, -1}, {3, 0}, {0, 3}, {-3, 0}, {0, -3}}
	for i, p := range points {
		e := event.Example{Label: i / 4, Weight: 1, Features: event.Vec{Index: []uint32{0, 1}, Value: p[:]}}
		if err := b.Add(&e); err != nil {
			fmt.Println(err)
			return
		}
	}
	data := b.Data(event.NewSchema(1, []string{"circle", "ring"}, 2))

	config, machine := batch.DefaultConfig(), svm.DefaultConfig()
	config.Cost, machine.Kernel = 10, "poly:2"
	fit, err := svm.Train(context.Background(), data, config, machine)
	if err != nil {
		fmt.Println(err)
		return
	}
	event := event.Example{Features: event.Vec{Index: []uint32{0, 1}, Value: []float64{-2, 2}}}
	class := model.Predict(fit.Model.Score(&event, make([]float64, 1)))
	fmt.Println(data.Schema.Classes[class], fit.Converged, fit.Gap < 1e-6*fit.Objective)
	// Output: ring true true
}
