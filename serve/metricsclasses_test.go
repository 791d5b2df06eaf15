package serve

import (
	"fmt"
	"testing"

	"blankout/internal/measure"
	"blankout/internal/must"
)

// TestLargestClasses checks that the classes with the most events are returned, in their original order and at most the
// requested number. Classes without events must not be returned.
func TestLargestClasses(t *testing.T) {
	var classes []measure.ClassCoverage
	for i, events := range []float64{5, 0, 7, 3, 7, 1, 3} {
		classes = append(classes, measure.ClassCoverage{Class: fmt.Sprint(i), Events: events})
	}
	for n, want := range map[int]string{20: "023456", 4: "0234", 2: "24", 1: "2"} {
		got := ""
		for _, c := range largestClasses(classes, n) {
			got += c.Class
		}
		must.Equal(t, got, want, "the largest", n)
	}
}
