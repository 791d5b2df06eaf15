package schedule

import (
	"math"

	"blankout/internal/coder"
)

// Importance bounds the weight of an event by the weights of earlier events, so that no single label dominates.
type Importance struct {
	events, sum float64 // number of labeled events, and the sum of their bounded weights
}

// MostImportance is the largest weight of an event, as a multiple of the average weight.
const MostImportance = 32

// Observe returns the bounded weight with which an event is learned, and counts it. The average starts with one event
// of weight 1.
func (i *Importance) Observe(weight float64) (bounded float64) {
	bounded = i.Bound(weight)
	i.events++
	i.sum += bounded
	return bounded
}

// Bound is Observe without counting.
func (i *Importance) Bound(weight float64) float64 {
	return min(weight, MostImportance*(1+i.sum)/(1+i.events))
}

// State codes the state.
func (i *Importance) State(c *coder.Coder) { c.Each(&i.events, &i.sum) }

// mostUnits is the largest number of parts of weight at most 1 in which an event is learned.
const mostUnits = 16

// Parts calls learn with the parts of a weight, in order. The first mostUnits parts are at most 1. The rest follows in
// parts that double if doubling is set, for steps that cannot overshoot, and else in at most MostImportance equal
// parts. An event of weight 2 equals two events as long as all parts are 1.
func Parts(weight float64, doubling bool, learn func(part float64)) {
	units, n := weight, min(math.Ceil(weight), MostImportance)
	if doubling {
		units = min(weight, mostUnits)
		n = math.Ceil(units)
	}
	for range int(n) {
		learn(units / n)
	}
	rest := weight - units
	for part := 1.0; rest > 0; part *= 2 {
		learn(min(part, rest))
		rest -= min(part, rest)
	}
}

// MostParts is larger than the number of parts of any event.
const MostParts = 128
