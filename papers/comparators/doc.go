// Package comparators has optimizers with which the papers compare the learner's own: stochastic gradient descent and
// AROW. The product does not offer them. Use them with online.Config.Use.
package comparators
