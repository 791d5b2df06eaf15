// Module blankout is a streaming online learner of linear models. It learns each labeled event as if it had been seen
// with every possible combination of missing features: dropout noise, integrated analytically.
//
// The command is cmd/blankout. Package client predicts with a learned model inside your own process. CONTRIBUTING.md
// describes the other packages.
package blankout
