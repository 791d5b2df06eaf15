package online

// This file fills in numbers that an event lacks.

import (
	"cmp"
	"slices"

	"blankout/internal/event"
	"blankout/internal/model"
	"blankout/online/answer"
	"blankout/online/fill"
)

// filling is how the Learner fills in.
type filling struct {
	fill.Gatherer
	gathers  bool // the event at hand is gathered
	grouping *model.Grouping
	answers  bool      // it is answered by what follows
	answer   []float64 // its scores
	parts    model.Parts
	features event.Vec // of it, standardized: those that others are told from
	// By place in the Covariance: what the event has, the weights that it lacks, and what Repair adds.
	values, w, extra []float64
}

// fillsIn says whether the covariance is gathered. Several learners of one model gather
// none.
func (l *answering) fillsIn() bool { return l.set.fills && l.share == nil }

// chooseZeros decides which columns of a table in a sparse text format, whose absence may be declared, are filled
// in though they are 0 where they are left out: those that events hold most often, as many as there is
// room for beside the dense ones.
func (l *answering) chooseZeros() {
	m := l.fields.Missing
	if !m.Known || !l.fillsIn() {
		return
	}
	columns, often := slices.Clone(l.scaling.SpreadColumns()), map[uint32]float64{}
	for _, column := range columns {
		if row := l.table.Row(column); row != nil {
			often[column] = row[model.StatCount]
		}
	}
	slices.SortStableFunc(columns, func(a, b uint32) int { return cmp.Compare(often[b], often[a]) })
	columns = columns[:min(len(columns), max(0, l.config.CovarianceMaxFields-len(l.scaling.Scaler.Dense)))]
	slices.Sort(columns)
	l.fields.Missing = m.WithZeros(columns)
	l.filling.Choose(m.Zeros, l.fields.Missing.Zeros)
}

// fillAnswer finds the scores that filling in gives the event at hand, if the model answers it so:
// scores are those of what it has. Nothing of the event is learned yet but where numbers are measured from.
func (l *answering) fillAnswer(e *event.Example, scores []float64) {
	f, c := &l.filling, l.filling.Covariance
	if c == nil || l.fields.Missing.Policies[l.fields.Range-1][2] == 0 {
		return
	}
	m := model.Linear{Head: model.Head{Schema: l.schema, Scaler: l.scaling.Scaler, Missing: l.fields.Missing, Covariance: c}}
	parts := m.Parts(e, l.fields.Present, f.parts)
	if parts == nil {
		return
	}
	f.parts = parts
	l.findValues()
	m.TellParts(f.features, parts)
	a, fill, n := l.fields.Missing.Answer(l.fields.Lack, parts), c.Fill(parts), len(c.Columns)
	j := answer.Judge{Loss: l.judge.Loss, Unit: l.unit, Decision: l.decision()}
	f.answers, f.answer = true, zeros(f.answer, l.k)
	f.w, f.extra = zeros(f.w, n*l.k), zeros(f.extra, n)
	if fill != nil {
		l.lackedWeights(parts, l.mixed(l.fields.Range))
	}
	for k := range l.active {
		sum, variance := 0.0, 0.0
		if fill != nil {
			sum, variance = fill.Repair(f.w[k*n:][:n], f.extra)
			for place, extra := range f.extra {
				sum += f.values[place] * extra
			}
		}
		f.answer[k] = j.Widen(l.base[k]+a.Scale*(scores[k]-l.base[k])+a.Shares[2]*sum, a.Shares[2]*a.Shares[2]*variance)
	}
}

// findValues finds the values that the event at hand has of the columns of the Covariance, in what they
// were measured before it.
func (l *answering) findValues() {
	f, c := &l.filling, l.filling.Covariance
	f.values = zeros(f.values, len(c.Columns))
	f.features = event.Vec{Index: f.features.Index[:0], Value: f.features.Value[:0]}
	place := 0
	for i, column := range l.now.columns {
		for place < len(c.Columns) && c.Columns[place] < column {
			place++
		}
		if place == len(c.Columns) {
			break
		}
		if c.Columns[place] != column {
			continue
		}
		x := l.now.step.X[l.rowOf(i)]
		for _, m := range l.scaling.Read.Moved {
			if m.Column == column {
				x = m.X
			}
		}
		f.values[place] = x
		f.features.Index, f.features.Value = append(f.features.Index, column), append(f.features.Value, x)
	}
}

// lackedWeights finds the mixed weights of the columns that are filled in, by output and place.
func (l *answering) lackedWeights(parts model.Parts, mix []float64) {
	c, sums := l.filling.Covariance, l.probing.sums[0][:0]
	for place, part := range parts {
		if part != model.Filled {
			continue
		}
		if row := l.table.Row(c.Columns[place]); row != nil {
			sums = zeros(sums, l.k)
			l.addMix(sums, row, mix, 1)
			for k, w := range sums {
				for _, share := range mix[len(l.levels):] {
					w += share * l.second.weight(c.Columns[place], k)
				}
				l.filling.w[k*len(parts)+place] = w
			}
		}
	}
	l.probing.sums[0] = sums
}

// blockFill is the block of the state that this file keeps.
const blockFill = "gathered"
