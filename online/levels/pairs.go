package levels

// This file has pairs of features that die together. The variance of a level's score is strength times the sum of the
// squares of what each single feature, or pair, adds to the score. See groups.go for larger groups.

import (
	"blankout/online/encode"
	"blankout/online/rows"
)

// scorePairs adds the squares of what pairs add to the score.
func (e *Expert) scorePairs(in *encode.Input, s *Scores) {
	n := e.layout.N
	s.pairs = s.pairs[:0]
	for _, p := range in.Pairs {
		a, b := e.layout.Weights(in.Rows[p[0]]), e.layout.Weights(in.Rows[p[1]])
		x, z := in.X[p[0]], in.X[p[1]]
		for j := range n {
			sum := x*a[j] + z*b[j]
			s.pairs = append(s.pairs, sum)
			s.square[j] += sum * sum
		}
	}
}

// comparePairs is scorePairs for the averages. It adds to square.
func (e *Expert) comparePairs(in *encode.Input, square []float64) {
	for _, p := range in.Pairs {
		a, b := in.Rows[p[0]], in.Rows[p[1]]
		x, z := in.X[p[0]], in.X[p[1]]
		for j, c := range e.step.coefficient {
			sum := x*(e.layout.Weights(a)[j]+c*e.layout.Lags(a)[j]) + z*(e.layout.Weights(b)[j]+c*e.layout.Lags(b)[j])
			square[j] += sum * sum
		}
	}
}

// segmentPairs divides the rows of the step into pairs and the runs between them. The gradient of a pair's features has
// a factor of its own: the derivative by the score plus that by the variance, which both features share.
func (e *Expert) segmentPairs(in *encode.Input, own *Scores) {
	s, n := &e.step, e.layout.N
	padded := (n + 3) &^ 3 // see rows.NewStep
	factors := s.Factors((len(in.Pairs) + 1) * padded)
	clear(factors)
	none := factors[len(in.Pairs)*padded:][:n:padded]
	for i := range in.Pairs {
		to, sums := factors[i*padded:][:n:padded], own.pairs[i*n:][:n]
		for j, sum := range sums {
			to[j] = s.DF[j] + s.Shrink[j]*sum
		}
	}
	from := 0
	s.Segments = s.Segments[:0]
	run := func(to int) {
		if from < to {
			s.Segments = append(s.Segments, rows.Segment{From: from, To: to, DF: s.DF, Shrink: s.Shrink, Strength: s.Strength})
		}
	}
	for side := range 2 { // numbers come first, in order, then their presence columns in the same order
		for i, p := range in.Pairs {
			at := int(p[side])
			run(at)
			s.Segments = append(s.Segments, rows.Segment{From: at, To: at + 1, DF: factors[i*padded:][:n:padded], Shrink: none, Strength: s.Strength})
			s.Basis[at] = in.X[at] * in.X[at]
			from = at + 1
		}
	}
	run(len(in.Rows))
}
