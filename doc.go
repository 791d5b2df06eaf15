// Package blankout is the vocabulary of a streaming online learner of linear models
// under feature noise, what crosses every wall: an event ([Example], [Vec]), where in
// the stream it was ([Position], [Offsets]), the fields that events have and what names
// hash to ([Schema], [Names]), why a record was refused ([Refusal]), and a named piece of
// a file ([Block]).
//

// Everything rests on one idea: the expected loss of an example under
// independent, unbiased feature noise depends on three numbers only, the
// label y, the score f = w.x and the variance of the noisy score
// v = sum_d w_d^2 Var[x~_d]. So a loss is one method of (y, f, v), in package loss;
// gradients, IRLS weights and online metrics are derived from it. What has been learned
// is in package model.
//

// The package does no arithmetic of models and no I/O; every other package points at it,
// and it points at loss alone, for the kind of the labels.
package blankout
