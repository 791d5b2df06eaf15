// Package event defines the types that most packages share. They are:
//   - an event ([Example], [Vec])
//   - its position in the stream ([Position], [Offsets])
//   - the fields and columns of events ([Schema], [Names])
//   - the reason why a record was refused ([Refusal])
//   - a named part of a file ([Block])
//
// The expected loss of an event under independent, unbiased feature noise depends on three numbers. The three numbers
// are the label y, the score f = w.x, and the variance of the noisy score, v = sum_d w_d^2 Var[x~_d]. So a loss is one
// method of (y, f, v), in package loss. Gradients, IRLS weights and measures follow from this method.
//
// The package has no model arithmetic and no I/O. Package event imports only package loss, which defines the kinds of
// labels.
package event
