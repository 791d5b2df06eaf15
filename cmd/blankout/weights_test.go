package main

import (
	"fmt"
	"testing"

	"blankout/internal/event"
	"blankout/internal/model"
	"blankout/internal/must"
)

// TestLargestWeights checks that the evidence for a class is summed over all outputs that involve the class.
func TestLargestWeights(t *testing.T) {
	for _, c := range []struct {
		name    string
		classes []string
		loss    string
		pairs   bool
		weights [][]float64 // weights by output and column
		want    string
	}{
		{"two classes", []string{"no", "yes"}, "logistic:gaussian", false, [][]float64{{2, -1}}, "no #1 1, yes #0 2"},
		{"one against the rest", []string{"a", "b", "c"}, "logistic:gaussian", false, [][]float64{{1, 0}, {0, 2}, {3, -1}}, "a #0 1, b #1 2, c #0 3"},
		{"pairs b:a, c:a, c:b", []string{"a", "b", "c"}, "logistic:gaussian", true, [][]float64{{-1, 0}, {-2, 1}, {0, 4}}, "a #0 3, c #1 5"},
		{"numbers", []string{"3", "5", "8"}, "linear", false, [][]float64{{2, -1}}, "smaller numbers #1 1, larger numbers #0 2"},
	} {
		m := model.NewLinear(event.NewSchema(4, c.classes, 0), c.loss, "none", c.weights, make([]float64, len(c.weights)))
		m.Pairs = c.pairs
		got := ""
		for _, list := range largestWeights(m, 1) {
			for _, w := range list {
				got += fmt.Sprintf(", %s %s %v", w.Class, w.Feature, w.Weight)
			}
		}
		must.True(t, got == ", "+c.want, "%s: %s, want %s", c.name, got[2:], c.want)
	}
}
