// Package rare maps classes to outputs if classes with few events share an output. Such classes are called rare. A
// class is rare if it is not one of the first [AlwaysSeparate] classes and has a shared output, at the latest until
// its [SeparateAfter]-th event. The score of a rare class is the score of the shared output plus the logarithm of a
// fraction: the class's fraction of all events of rare classes.
package rare

import (
	"math"
	"slices"

	"blankout/internal/coder"
)

const (
	// The first AlwaysSeparate classes have a separate output from their first event on. If so many outputs need too
	// much memory, this holds for fewer classes. Every other class gets a separate output at the latest at its
	// SeparateAfter-th event, if there is memory.
	AlwaysSeparate, SeparateAfter = 10, 8
	// keep is the decay factor, per event, of the weights of all rare classes. The weights decay because labels often
	// repeat.
	keep = 0.95
	// prior is the weight of a class without events.
	prior = 1
)

// Classes maps classes to outputs. In the zero value, each class has the output with the same index.
type Classes struct {
	// Changed is the number of the event at which the outputs last changed.
	Changed uint64

	on     bool
	shown  int       // smallest number of scores that Expand returns
	output []int     // output of each class seen so far
	weight []float64 // decayed number of each rare class's events; 0 for a class with a separate output
	all    float64   // sum of all weights
	offset []float64 // log(weight/all) of each class, 0 for a class with a separate output
	shared int       // output of the rare classes, if there are any
	layout []int     // result of Outputs
}

// On reports whether classes share an output, or have shared an output before.
func (c *Classes) On() bool { return c.on }

// Known returns the number of classes seen so far, or 0 before classes share an output.
func (c *Classes) Known() int { return len(c.output) }

// Merge makes the rare classes share one output, the last, together with the classes that already share it. It
// returns, for each new output, the old outputs whose mean is its initial value. rare reports whether a class is
// rare, and events returns its number of events. Only the first call uses known, the number of classes seen so far,
// and shown, the smallest number of scores that Expand returns.
func (c *Classes) Merge(known, shown int, rare func(class int) bool, events func(class int) uint64) (from [][]int) {
	was := *c
	if was.on {
		known, shown = len(was.output), was.shown
	}
	*c = Classes{on: true, shown: shown, Changed: was.Changed}
	var merged []int
	for class := range known {
		output, weight := was.Output(class), 0.0
		switch {
		case was.IsRare(class):
			weight = was.weight[class]
		case rare(class):
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

// Rare returns the number of classes that share an output.
func (c *Classes) Rare() (n int) {
	for _, w := range c.weight {
		if w > 0 {
			n++
		}
	}
	return n
}

// IsRare reports whether a class is rare: it uses the shared output.
func (c *Classes) IsRare(class int) bool { return class < len(c.weight) && c.weight[class] > 0 }

// Shared returns the index of the shared output of the rare classes.
func (c *Classes) Shared() int { return c.shared }

// Add adds the next class, which is rare. If it is the only rare class, it gets the argument output, which must be a
// new output. shift is the amount by which the scores of the shared output must be shifted so that the scores of other
// classes do not change.
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

// Promote gives a rare class a separate output. If there is no other rare class, the class gets the shared output.
// Otherwise it gets the output with the index output, which must be a copy of the shared output. It returns the shifts
// of the class's output (own) and of the shared one with which all scores stay the same.
func (c *Classes) Promote(class, output int) (own, shared float64) {
	own, was := c.offset[class], c.all
	c.weight[class] = 0
	alone := c.Rare() == 0
	if !alone {
		c.output[class] = output
	}
	c.follow()
	if alone {
		return 0, 0
	}
	return own, math.Log(c.all / was)
}

// Take counts an event of a known class.
func (c *Classes) Take(class int) {
	if !c.IsRare(class) {
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

// follow updates the values that depend on outputs and weights.
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

// Output returns the output of a class, or -1 if the class is not known yet. In the zero value it returns class.
func (c *Classes) Output(class int) int {
	switch {
	case !c.on:
		return class
	case class < 0 || class >= len(c.output):
		return -1
	}
	return c.output[class]
}

// Class returns the class of an output, or -1 for the shared output.
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

// Scores returns the number of scores that Expand returns for the given number of outputs.
func (c *Classes) Scores(outputs int) int {
	if !c.on {
		return outputs
	}
	return max(c.shown, len(c.output))
}

// Expand appends the scores of the classes to out. outputs has the scores of the outputs, and unseen is the score of a
// class that is not known yet.
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

// Outputs returns the index of the output for each score that Expand returns, or -1 for a class that is not known yet.
// It returns nil for the zero value. The caller must not change the result.
func (c *Classes) Outputs() []int {
	if c.on && c.layout == nil {
		c.layout = slices.Clone(c.output)
		for range c.shown - len(c.output) {
			c.layout = append(c.layout, -1)
		}
	}
	return c.layout
}

// Count returns the number of outputs of known classes, or 0 for the zero value.
func (c *Classes) Count() (outputs int) {
	for _, o := range c.output {
		outputs = max(outputs, o+1)
	}
	return outputs
}

// State encodes or decodes the state. On must be true.
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

// mostShown bounds the value of shown in a decoded state.
const mostShown = 1 << 16

// fits reports whether each output is valid: it belongs to a single class, or is the shared output of all rare
// classes.
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
	if c.Rare() > 0 {
		if taken[c.shared] {
			return false
		}
		taken[c.shared] = true
	}
	return !slices.Contains(taken, false)
}
