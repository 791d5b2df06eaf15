package schedule

import (
	"math"

	"blankout/internal/coder"
)

// Importance bounds the weight of one event by the weights of the events before it, so that no single label
// decides about all that follows.
type Importance struct {
	events, sum float64 // labeled events, and their bounded weights
}

// MostImportance is how many average events one event may weigh.
const MostImportance = 32

// Observe returns the weight that an event is learned with, at most MostImportance times the average one so far,
// and counts it. The average begins with one event of weight 1.
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

// mostUnits is how many parts of at most one whole event an event is learned in.
const mostUnits = 16

// Parts calls learn with the parts in which an event of that weight is learned, in order. If doubling is set, what
// mostUnits parts leave of the weight follows in parts that double, which must not overshoot; else there are at most
// MostImportance parts, all equal. Twice the weight is twice the event while both are learned in parts of 1.
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

// MostParts is more than the parts of any event.
const MostParts = 128
