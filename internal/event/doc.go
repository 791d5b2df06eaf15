// Package event holds what crosses packages: an event ([Example], [Vec]), its place in the
// stream ([Position], [Offsets]), the fields of events and the columns that names hash to
// ([Schema], [Names]), the reason why a record was refused ([Refusal]), and a named part of a
// file ([Block]).
//
// The expected loss of an example under independent, unbiased feature noise depends on three
// numbers only: the label y, the score f = w.x and the variance of the noisy score
// v = sum_d w_d^2 Var[x~_d]. So a loss is one method of (y, f, v), in package loss, from which
// gradients, IRLS weights and measures follow.
//
// The package does no arithmetic of models and no I/O. It imports package loss alone, for the kind
// of the labels.
package event
