package main

import (
	"cmp"
	"slices"

	"blankout"
)

// namedWeight is a feature's published weight for one class: positive speaks
// for it, negative against it.
type namedWeight struct {
	Class   string  `json:"class"`
	Feature string  `json:"feature"`
	Column  uint32  `json:"column"`
	Weight  float64 `json:"weight"`
}

// largestWeights returns, for each class that has a name, the n features that
// speak most for it, largest first. A model with one output has two such lists:
// what is against the positive class is for the other.
func largestWeights(m *blankout.Model, n int) [][]namedWeight {
	name := m.Schema.Namer()
	var out [][]namedWeight
	for class, className := range m.Schema.Classes {
		if className == "" {
			continue
		}
		var list []namedWeight
		for i := range m.Rows.Len() {
			column, _ := m.Rows.Column(i)
			w := 0.0
			switch {
			case m.Outputs > 1 && class < m.Outputs:
				w = m.Weight(column, class)
			case class == 1:
				w = m.Weight(column, 0)
			case class == 0:
				w = -m.Weight(column, 0)
			}
			if w > 0 {
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
