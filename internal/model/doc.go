// Package model is what answers, frozen: a linear model and how it standardizes features,
// bends them into curves, fills in what is missing and puts its answers apart.
//
// A [Linear] is a [Head], which says how scores are made, and the rows of a [Table]. The
// learner publishes one, files and servers hold one, and every score of an event that
// anybody is told is made here.
package model
