// Package model defines frozen models: a linear model, and how it standardizes features, computes splines, imputes
// missing values and explains its predictions.
//
// A [Linear] consists of a [Head], which defines how scores are computed, and the rows of a [Table]. The learner
// publishes it, and files and servers store it. Every published prediction is computed in this package.
package model
