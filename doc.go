// Module blankout is a streaming online learner of linear models. It learns each labeled event as
// if every event had been seen under every possible loss of features: dropout noise, integrated
// out analytically.
//
// The command is cmd/blankout. Package client predicts with a learned model in your own process.
// CONTRIBUTING.md says where everything else is.
package blankout
