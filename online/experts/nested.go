package experts

// This file scores nested copies of an event. Each copy has more missing features than the copy before. The mixed score
// is linear in the features, so all copies together need only one or two passes over the features.

import (
	"slices"

	"blankout/online/encode"
)

// Nested has the mixed scores of nested copies of an event without the base scores, and reusable memory.
type Nested struct {
	// By copy and output: the part of the features in the mixed score. In copies of declared, missing features are
	// omitted. In copies of silent, they have the values in Input.Dead. Copy 0 is not scored.
	declared, silent [][]float64
	constant         []float64 // by output: the mixed intercept times the value of the constant feature
	seen             Input
	part             Input        // scratch
	dead             encode.Input // the event in which all features are silently missing
	// The features in seen, sorted by copy. until has, by copy, the index after its features.
	index []int
	x     []float64
	until []int
}

// NewNested returns a Nested for the given number of copies.
func (x *Experts) NewNested(copies int) Nested {
	n := Nested{declared: make([][]float64, copies), silent: make([][]float64, copies), constant: make([]float64, x.Outputs), until: make([]int, copies+1)}
	for i := range copies {
		n.declared[i], n.silent[i] = make([]float64, x.Outputs), make([]float64, x.Outputs)
	}
	return n
}

// SumNested computes the parts of all copies' scores. Feature i of the event is present up to copy last[i], or in no
// copy if last[i] is -1. If silent is true, Encoder.ImputeDead must have been called for the event.
func (x *Experts) SumNested(in *encode.Input, last []int8, silent bool, n *Nested) {
	features, copies := in.Features(), len(n.declared)
	x.Read(in, &n.seen)
	x.Intercepts(n.constant)
	for k := range n.constant {
		n.constant[k] *= n.seen.One
	}
	n.arrange(func(source int) int { return max(int(last[source]), 0) }) // the last copy with the feature
	x.sumCopies(n, n.declared)
	for i := copies - 2; i > 0; i-- {
		add(n.declared[i], n.declared[i+1])
	}
	if !silent {
		return
	}
	n.dead.Columns, n.dead.Raw = in.Columns[:features], in.DeadRaw[:features]
	n.dead.X = append(append(n.dead.X[:0], in.Dead[:features]...), in.X[features])
	x.Read(&n.dead, &n.seen)
	n.arrange(func(source int) int { return min(int(last[source])+1, copies) }) // the first copy without the feature
	x.sumCopies(n, n.silent)
	for i := 1; i < copies; i++ {
		add(n.silent[i], n.silent[i-1])
	}
	for i := 1; i < copies; i++ {
		add(n.silent[i], n.declared[i])
	}
}

// ScoreNested writes the mixed scores of a copy to out, by output. base holds the copy's base scores. silent is true
// for the copy with silently missing features.
func (x *Experts) ScoreNested(n *Nested, copy int, silent bool, base, out []float64) {
	part := n.declared[copy]
	if silent {
		part = n.silent[copy]
	}
	c := x.Base()
	for k, b := range base {
		out[k] = c*b + n.constant[k] + part[k]
	}
}

// arrange sorts the features of seen by the copy that of returns for their index in the event. Features for which of
// returns the number of copies are last.
func (n *Nested) arrange(of func(source int) int) {
	features := len(n.seen.Index)
	n.index, n.x = slices.Grow(n.index[:0], features)[:features], slices.Grow(n.x[:0], features)[:features]
	clear(n.until)
	for _, source := range n.seen.Source {
		n.until[of(source)]++
	}
	at := 0
	for copy, count := range n.until {
		n.until[copy] = at
		at += count
	}
	for i, source := range n.seen.Source {
		to := &n.until[of(source)]
		n.index[*to], n.x[*to] = n.seen.Index[i], n.seen.X[i]
		*to++
	}
}

// sumCopies sets each list in to to the mixed weights times the values of the arranged features of its copy.
func (x *Experts) sumCopies(n *Nested, to [][]float64) {
	from := 0
	for copy, sums := range to {
		end := n.until[copy]
		clear(sums)
		if from < end {
			n.part.Index, n.part.X = n.index[from:end], n.x[from:end]
			x.addSums(&n.part, sums)
		}
		from = end
	}
}

// add adds the elements of from to those of to.
func add(to, from []float64) {
	for k, f := range from {
		to[k] += f
	}
}
