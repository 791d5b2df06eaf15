package adagrad

// This file has features that die together count together: the variance of a level's score is strength times the sum of the
// squares of what each alone, or such features together, add to the score.

import "blankout/online/next/encode"

// scorePairs replaces the squares of what the features of pairs add alone by those of what they add together.
func (e *Expert) scorePairs(in *encode.Input, s *Scores) {
	n := e.layout.N
	if s.pairs = s.pairs[:0]; len(in.Pairs) == 0 {
		return
	}
	for _, p := range in.Pairs {
		a, b := e.layout.Weights(in.Rows[p[0]]), e.layout.Weights(in.Rows[p[1]])
		x, z := in.X[p[0]], in.X[p[1]]
		for j := range n {
			sum := x*a[j] + z*b[j]
			s.pairs = append(s.pairs, sum)
			s.Square[j] += sum * sum
		}
	}
}

// comparePairs is scorePairs for the averages, whose squares are summed in square.
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

// pairFactors finds what the features of each pair are multiplied by in their gradients: the derivative by the score, and
// that by the variance, which is of both.
func (e *Expert) pairFactors(in *encode.Input, own *Scores) {
	s, n := &e.step, e.layout.N
	padded := (n + 3) &^ 3
	if most := len(in.Pairs) * padded; cap(s.pairs) < most {
		s.pairs = make([]float64, 2*most)
	}
	s.pairs = s.pairs[:len(in.Pairs)*padded]
	for i := range in.Pairs {
		to, sums := s.pairs[i*padded:][:padded], own.pairs[i*n:][:n]
		clear(to[n:])
		for j, sum := range sums {
			to[j] = s.df[j] + s.shrink[j]*sum
		}
	}
}

// eachRun calls run with the rows whose gradients have the same factors df, in order: all at once where there is no pair.
func (e *Expert) eachRun(in *encode.Input, run func(from, to int, df []float64)) {
	s, n, from := &e.step, e.layout.N, 0
	padded := (n + 3) &^ 3
	for side := range 2 { // numbers come first, in order, and what they are paired with behind them, likewise
		for i, p := range in.Pairs {
			at := int(p[side])
			if from < at {
				run(from, at, s.df)
			}
			run(at, at+1, s.pairs[i*padded:][:n:padded])
			from = at + 1
		}
	}
	if from < len(in.Rows) {
		run(from, len(in.Rows), s.df)
	}
}
