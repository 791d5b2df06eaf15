// Package blankout is the vocabulary of a streaming online learner of linear
// classifiers under feature noise: what an event is ([Example], [Vec]), what
// it costs ([Loss]), how its features may be lost ([Noise]), what has been
// learned ([Linear]) and where in the stream that was ([Offsets]).
//
// Everything rests on one idea: the expected loss of an example under
// independent, unbiased feature noise depends on three numbers only, the
// label y, the score f = w.x and the variance of the noisy score
// v = sum_d w_d^2 Var[x~_d]. So a loss is one method of (y, f, v); gradients,
// IRLS weights and online metrics are derived from it.
//
// The package imports the standard library only and does no I/O; every other
// package points at it and it points at none.
package blankout
