// Package estimators lists the losses whose objectives are implemented in packages below batch. Package batch does not
// import those packages.
package estimators

import (
	"slices"

	"blankout/batch"
	"blankout/batch/fdrop"
	"blankout/batch/mcf"
	"blankout/batch/ramp"
)

// All returns all losses of this list, for the Estimators of a batch.Config.
func All() []batch.Estimator {
	return slices.Concat(mcf.Estimators(), []batch.Estimator{ramp.Estimator(), fdrop.Estimator()})
}
