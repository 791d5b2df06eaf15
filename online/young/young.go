// Package young says which output learns each class once classes of few events share one, which are called young: those
// beyond the first [Own], before their [Ripe]-th event at the latest. The score of each is the score of the shared output
// plus the logarithm of the class's fraction of their events.
package young

import (
	"math"
	"slices"

	"blankout/internal/coder"
)

const (
	// Own is how many classes have an output of their own from their first event on, Ripe with which event the
	// others get one at the latest, if there is room for it.
	Own, Ripe = 10, 8
	// keep is what an event of a young class leaves of the weights of all young classes: labels come in runs.
	keep = 0.95
	// prior is the weight of a class without an event.
	prior = 1
)

// Classes says which output learns each class. In the zero value every class has the output of its own number.
type Classes struct {
	// Changed is the number of the event at which outputs last changed their meaning.
	Changed uint64

	on     bool
	shown  int       // the least number of scores, see Expand
	output []int     // by class that has come
	weight []float64 // by class: of its events while it is young, older ones decayed; 0 for a class with its own output
	all    float64   // sum of weight
	offset []float64 // by class: log(weight/all), 0 for a class with its own output
	shared int       // the output of the young classes, if there are any
	layout []int     // see Outputs
}

// On says whether classes share, or have shared, an output.
func (c *Classes) On() bool { return c.on }

// Known returns the number of classes that have come, 0 before the first share.
func (c *Classes) Known() int { return len(c.output) }

// Merge has young classes share an output, with those that do already. The first known classes have come, if none shares
// yet, and shown is the least number of scores that Expand gives. events is the number of a class's events. Merge returns for
// each output from now on the outputs so far whose mean it begins as: the shared one's are the last.
func (c *Classes) Merge(known, shown int, young func(class int) bool, events func(class int) uint64) (from [][]int) {
	was := *c
	if was.on {
		known, shown = len(was.output), was.shown
	}
	*c = Classes{on: true, shown: shown, Changed: was.Changed}
	var merged []int
	for class := range known {
		output, weight := was.Output(class), 0.0
		switch {
		case was.IsYoung(class):
			weight = was.weight[class]
		case young(class):
			weight = prior + float64(events(class))
		}
		c.output, c.weight = append(c.output, len(from)), append(c.weight, weight)
		if weight == 0 {
			from = append(from, []int{output})
		} else if !slices.Contains(merged, output) {
			merged = append(merged, output)
		}
	}
	c.shared = len(from)
	for class, w := range c.weight {
		if w > 0 {
			c.output[class] = c.shared
		}
	}
	if merged != nil {
		from = append(from, merged)
	}
	c.follow()
	return from
}

// Young returns how many classes share an output.
func (c *Classes) Young() (n int) {
	for _, w := range c.weight {
		if w > 0 {
			n++
		}
	}
	return n
}

// IsYoung says whether a class shares its output.
func (c *Classes) IsYoung(class int) bool { return class < len(c.weight) && c.weight[class] > 0 }

// Shared returns the output of the young classes.
func (c *Classes) Shared() int { return c.shared }

// Add takes up the next class, which is young. Where it is the only one its output is the given one, which must
// be new. It returns by how much the shared output's scores must grow for those of the other classes to stay.
func (c *Classes) Add(output int) (shift float64) {
	was := c.all
	if was == 0 {
		c.shared = output
	}
	c.output, c.weight = append(c.output, c.shared), append(c.weight, prior)
	c.follow()
	if was == 0 {
		return 0
	}
	return math.Log(c.all / was)
}

// Promote gives a young class an output of its own: the shared one where there is no other young class, else the
// given one, which must be a copy of it. It returns by how much the scores of the class's output and of the shared
// one must grow for those of all classes to stay.
func (c *Classes) Promote(class, output int) (own, shared float64) {
	own, was := c.offset[class], c.all
	c.weight[class] = 0
	alone := c.Young() == 0
	if !alone {
		c.output[class] = output
	}
	c.follow()
	if alone {
		return 0, 0
	}
	return own, math.Log(c.all / was)
}

// Take counts an event of a class that has come.
func (c *Classes) Take(class int) {
	if !c.IsYoung(class) {
		return
	}
	for i, w := range c.weight {
		if w > 0 {
			c.weight[i] = prior + keep*(w-prior)
		}
	}
	c.weight[class]++
	c.follow()
}

// follow makes what depends on the outputs and weights.
func (c *Classes) follow() {
	c.all = 0
	for _, w := range c.weight {
		c.all += w
	}
	c.offset, c.layout = c.offset[:0], nil
	for _, w := range c.weight {
		if w > 0 {
			w = math.Log(w / c.all)
		}
		c.offset = append(c.offset, w)
	}
}

// Output returns the output of a class, -1 for one that has not come; in the zero value its own number.
func (c *Classes) Output(class int) int {
	switch {
	case !c.on:
		return class
	case class < 0 || class >= len(c.output):
		return -1
	}
	return c.output[class]
}

// Class returns the class whose own an output is, -1 for the shared one.
func (c *Classes) Class(output int) int {
	if !c.on {
		return output
	}
	for class, o := range c.output {
		if o == output && c.weight[class] == 0 {
			return class
		}
	}
	return -1
}

// Scores returns the number of scores that Expand gives, of so many outputs.
func (c *Classes) Scores(outputs int) int {
	if !c.on {
		return outputs
	}
	return max(c.shown, len(c.output))
}

// Expand appends to out the scores of the classes, given those of the outputs; unseen is that of a class that has not come.
func (c *Classes) Expand(outputs []float64, unseen float64, out []float64) []float64 {
	if !c.on {
		return append(out, outputs...)
	}
	for class, o := range c.output {
		out = append(out, outputs[o]+c.offset[class])
	}
	for range c.shown - len(c.output) {
		out = append(out, unseen)
	}
	return out
}

// Outputs returns the output of each score of Expand, -1 for a class that has not come; nil in the zero value. It never
// changes.
func (c *Classes) Outputs() []int {
	if c.on && c.layout == nil {
		c.layout = slices.Clone(c.output)
		for range c.shown - len(c.output) {
			c.layout = append(c.layout, -1)
		}
	}
	return c.layout
}

// Count returns the number of outputs of the classes that have come, 0 in the zero value.
func (c *Classes) Count() (outputs int) {
	for _, o := range c.output {
		outputs = max(outputs, o+1)
	}
	return outputs
}

// State codes the state of Classes that are On.
func (c *Classes) State(to *coder.Coder) {
	known := len(c.output)
	to.Uint(&c.Changed)
	to.Int(&c.shown)
	to.Int(&c.shared)
	to.Int(&known)
	if to.Decode {
		if known < 1 || known > len(to.In)/16 || c.shown < 0 || c.shown > mostShown {
			to.Failed = true
			return
		}
		c.on, c.output, c.weight = true, make([]int, known), make([]float64, known)
	}
	for i := range c.output {
		to.Int(&c.output[i])
		to.Float(&c.weight[i])
	}
	if to.Failed = to.Failed || to.Decode && !c.fits(); !to.Failed {
		c.follow()
	}
}

// mostShown bounds shown in a state that is read.
const mostShown = 1 << 16

// fits says whether each output is that of one class, or the shared one of all that are young.
func (c *Classes) fits() bool {
	known := len(c.output)
	if slices.Min(c.output) < 0 || slices.Max(c.output) >= known {
		return false
	}
	taken := make([]bool, c.Count())
	for i, o := range c.output {
		switch w := c.weight[i]; {
		case w == 0 && !taken[o]:
			taken[o] = true
		case !(w >= prior && w < 1<<53 && o == c.shared):
			return false
		}
	}
	if c.Young() == 0 {
		return !slices.Contains(taken, false)
	}
	if taken[c.shared] {
		return false
	}
	taken[c.shared] = true
	return !slices.Contains(taken, false)
}
