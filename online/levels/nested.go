package levels

// This file scores nested copies of an event. Each copy has more missing features than the copy before. Because the
// score is a sum over features, all copies together need only one pass over the features.

import (
	"slices"

	"blankout/online/encode"
	"blankout/online/rows"
)

// Nested holds the scores of nested copies of an event, and reusable memory.
type Nested struct {
	// At has the scores by copy. Copy 0 is not scored. The sums of squares in the scores are 0, because only training
	// needs them.
	At    []Scores
	order [][]float64 // rows, sorted by the last copy in which the feature is present
	x     []float64
	none  []float64 // zeros
	until []int     // by copy: the index in order after its features
}

// NewNested returns a Nested for the given number of copies.
func (e *Expert) NewNested(copies int) Nested {
	n := Nested{At: make([]Scores, copies), until: make([]int, copies+1)}
	for i := range n.At {
		n.At[i] = e.NewScores()
	}
	return n
}

// ScoreNested scores copies of an event. Feature i is present up to copy last[i], or in no copy if last[i] is -1.
func (e *Expert) ScoreNested(in *encode.Input, last []int8, n *Nested) {
	features, copies := in.Features(), len(n.At)
	sum := &n.At[copies-1]
	clear(sum.sums)
	if len(n.none) <= features {
		n.none = make([]float64, 2*features+1)
	}
	add := func(rs [][]float64, x []float64) {
		rows.Sum(rs, rows.FirstPart, e.layout.N, x, n.none[:len(rs)], sum.Iterate, sum.Lag, sum.square)
	}
	add(in.Rows[features:], in.X[features:])
	n.arrange(in, last)
	for i := copies - 1; i > 0; i-- {
		if i < copies-1 {
			copy(n.At[i].sums, sum.sums)
		}
		sum = &n.At[i]
		from := n.until[i]
		add(n.order[from:n.until[i+1]], n.x[from:n.until[i+1]])
	}
}

// maxCopies is the largest number of copies, plus one.
const maxCopies = 16

// arrange sorts the features by the last copy in which they are present. Features that are missing in all copies are
// first.
func (n *Nested) arrange(in *encode.Input, last []int8) {
	features := in.Features()
	n.order, n.x = slices.Grow(n.order[:0], features)[:features], slices.Grow(n.x[:0], features)[:features]
	var count, next [maxCopies]int
	for _, until := range last[:features] {
		count[max(until, 0)]++ // copy 0 is not scored, so its features count as missing
	}
	at := 0
	for i := range n.until {
		n.until[i] = at
		at += count[i]
	}
	copy(next[:], n.until)
	for i, until := range last[:features] {
		to := &next[max(until, 0)]
		n.order[*to], n.x[*to] = in.Rows[i], in.X[i]
		*to++
	}
}
