// Package estimators lists the losses whose objectives are in packages of their own, beside
// this one, which package batch does not import.
package estimators

import (
	"slices"

	"blankout/batch"
	"blankout/batch/fdrop"
	"blankout/batch/mcf"
	"blankout/batch/ramp"
)

// All returns all of them, for the Estimators of a batch.Config.
func All() []batch.Estimator {
	return slices.Concat(mcf.Estimators(), []batch.Estimator{ramp.Estimator(), fdrop.Estimator()})
}
