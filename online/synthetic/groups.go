package synthetic

import (
	"slices"

	"blankout/internal/event"
	"blankout/internal/loss"
)

// SlowGroups returns, for each column of an event of streamSchema, the groups with which the column is dropped.
func SlowGroups(e *event.Example, columns []uint32) [][]string {
	out := make([][]string, len(columns))
	for i, column := range columns {
		out[i] = []string{""}
		if j := slices.Index(e.Features.Index, column); j >= 0 {
			out[i] = [][]string{{""}, {"sensor"}, {"sensor"}, {"words"}, {"sensor", "words"}}[e.Field[j]]
		}
	}
	return out
}

// SlowVariance returns the variance of the noisy score of features; parts has the part of the score that each feature
// adds. It is the sum of the covariance over all pairs of features. The expectation of the product of two features'
// factors is the expectation of the squared factors of their common groups. Columns of one feature (a number and its
// spline columns) also share the feature's own factor.
func SlowVariance(n loss.GroupDropout, groups [][]string, features []uint32, parts []float64) (v float64) {
	for i, a := range parts {
		for j, b := range parts {
			square := 1.0
			for _, g := range groups[i] {
				if slices.Contains(groups[j], g) {
					square /= 1 - n.Rate(g)
				}
			}
			if features[i] == features[j] {
				square /= 1 - n.Q
			}
			v += a * b * (square - 1)
		}
	}
	return v
}
