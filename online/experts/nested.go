package experts

// This file scores nested copies of an event. Each copy has more missing features than the copy before. The mixed score
// is linear in the features, so all copies together need only one pass over the features.

import (
	"slices"

	"blankout/online/encode"
)

// Nested has the mixed scores of nested copies of an event without the base scores, and reusable memory.
type Nested struct {
	parts    [][]float64 // by copy and output: the part of the features in the mixed score; copy 0 is not scored
	constant []float64   // by output: the mixed intercept times the value of the constant feature
	seen     Input
	part     Input // scratch
	// The features in seen, sorted by copy. until has, by copy, the index after its features.
	index []int
	x     []float64
	until []int
}

// NewNested returns a Nested for the given number of copies.
func (x *Experts) NewNested(copies int) Nested {
	n := Nested{parts: make([][]float64, copies), constant: make([]float64, x.Outputs), until: make([]int, copies+1)}
	for i := range copies {
		n.parts[i] = make([]float64, x.Outputs)
	}
	return n
}

// SumNested computes the parts of all copies' scores. Feature i of the event is present up to copy last[i], or in no
// copy if last[i] is -1.
func (x *Experts) SumNested(in *encode.Input, last []int8, n *Nested) {
	x.Read(in, &n.seen)
	x.Intercepts(n.constant)
	for k := range n.constant {
		n.constant[k] *= n.seen.One
	}
	n.arrange(last)
	x.sumCopies(n)
	for i := len(n.parts) - 2; i > 0; i-- {
		add(n.parts[i], n.parts[i+1])
	}
}

// ScoreNested writes the mixed scores of a copy to out, by output. base holds the copy's base scores.
func (x *Experts) ScoreNested(n *Nested, copy int, base, out []float64) {
	c := x.Base()
	for k, b := range base {
		out[k] = c*b + n.constant[k] + n.parts[copy][k]
	}
}

// arrange sorts the features of seen by the last copy with the feature.
func (n *Nested) arrange(last []int8) {
	features := len(n.seen.Index)
	n.index, n.x = slices.Grow(n.index[:0], features)[:features], slices.Grow(n.x[:0], features)[:features]
	clear(n.until)
	for _, source := range n.seen.Source {
		n.until[max(last[source], 0)]++
	}
	at := 0
	for copy, count := range n.until {
		n.until[copy] = at
		at += count
	}
	for i, source := range n.seen.Source {
		to := &n.until[max(last[source], 0)]
		n.index[*to], n.x[*to] = n.seen.Index[i], n.seen.X[i]
		*to++
	}
}

// sumCopies sets each list in parts to the mixed weights times the values of the arranged features of its copy.
func (x *Experts) sumCopies(n *Nested) {
	from := 0
	for copy, sums := range n.parts {
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
