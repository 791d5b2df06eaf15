package online

// This file tells the second-order expert which features of an event die together.

import (
	"math"
	"slices"

	"blankout/internal/loss"
	"blankout/online/rows"
)

// groupSecond hands on the groups of the event at hand, and what the levels as they are mixed add for each,
// if the expert is to learn the event under noise of groups.
func (l *answering) groupSecond() {
	s := &l.second
	if l.groups == nil || !l.groups.Grouped || !s.expert.Learns() {
		return
	}
	g := &s.groups
	g.Keys, g.Of = l.groups.Keys(g.Keys[:0]), g.Of[:0]
	at := 0
	for _, column := range s.columns {
		if source := l.scaling.Scaler.Curves.Source(column); source != column {
			at, _ = slices.BinarySearch(l.now.columns, source)
		} else {
			for at < len(l.now.columns) && l.now.columns[at] < column {
				at++
			}
		}
		group := -1
		if at < len(l.now.columns) {
			group = l.groups.GroupOf(at)
		}
		g.Of = append(g.Of, group)
	}
	// A pair of groups counts for r^2 in the variance, groups for r.
	_, r := loss.AsGroups(l.levels[l.natural()].noise).Odds("")
	pairs := math.Sqrt(r)
	g.Sums = zeros(g.Sums, len(g.Keys)*l.k)
	for v, share := range l.shares.InForce[0].Levels {
		if share != 0 {
			l.groups.AddPublished(&l.now.step.Event, rows.FirstPart, v*l.k, l.k, share, l.levels[v].LagShare(), pairs, g.Sums)
		}
	}
	s.expert.Die(*g)
}
