package main

// This file lists the features with the largest weights, for demo and inspect.

import (
	"cmp"
	"slices"

	"blankout/internal/loss"
	"blankout/internal/model"
)

// namedWeight is a feature's published weight for one class, with the feature's name. A positive weight is evidence for
// the class.
type namedWeight struct {
	Class   string  `json:"class"`
	Feature string  `json:"feature"`
	Column  uint32  `json:"column"`
	Weight  float64 `json:"weight"`
}

// largestWeights returns, for each named class, the n features with the largest evidence for the class, largest first.
// A model with one output has two lists: negative weights are evidence for the other class. If outputs compare pairs of
// classes, the evidence of a feature is the sum over all pairs that include the class.
func largestWeights(m *model.Linear, n int) [][]namedWeight {
	name := m.Namer()
	classes := m.Schema.Classes
	if loss.IsRegression(m.Loss) {
		classes = []string{"smaller numbers", "larger numbers"}
	}
	var out [][]namedWeight
	for class, className := range classes {
		if className == "" {
			continue
		}
		var list []namedWeight
		side := m.ClassSigns(class)
		for i := range m.Rows.Len() {
			column, row := m.Rows.Column(i)
			if w := m.SideWeight(side, row); w > 0 {
				list = append(list, namedWeight{Class: className, Column: column, Weight: w})
			}
		}
		slices.SortFunc(list, func(a, b namedWeight) int {
			return cmp.Or(cmp.Compare(b.Weight, a.Weight), cmp.Compare(a.Column, b.Column))
		})
		list = list[:min(n, len(list))]
		for i := range list {
			list[i].Feature = name(list[i].Column)
		}
		out = append(out, list)
	}
	return out
}
