// Package probe finds out how events are answered best. An answer is a score under one of the
// levels of a bank and one of the rules for missing features. A probe is an event, some of its
// features deleted by itself or by a mask, that is answered in every way before it is learned.
//
// Nothing is chosen: [Shares] say what part of the score each way has. They are kept by range of
// the share of fields that is missing ([Table]), and what predicts better has more of the score.
// The mixed answer stays linear in the features. Probes also tell what error is to be expected at
// each share of missing features ([Curve]).
//
// The package knows losses of answers and which features a [Mask] deletes, never weights.
package probe
