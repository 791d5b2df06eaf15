package main

// This file measures two ways to learn an event with null fields. The first way uses only the present fields, as the
// learner does. The second way also uses imputed values of the null fields.

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"

	"gonum.org/v1/gonum/stat"

	"blankout/internal/event"
	"blankout/internal/model"
	"blankout/online"
)

// nullStreams are the streams whose fields become null. In runs with group failures, each group is a sequence of
// consecutive columns; each remaining column is a group of its own.
var nullStreams = []struct {
	name, file       string
	classes, columns int
	group            int
}{
	{"elec2", "stream.svm.gz", 2, 8, 2},
	{"gas_drift", "stream.svm.gz", 6, 128, 8},
	{"covtype_10k", "train.svm.gz", 7, 54, 5},
}

const nullSeeds = 5

// nulls compares the two ways on events in which a fraction of the fields or groups is null, by the progressive error.
func (c *comparison) nulls() error {
	fmt.Fprint(c.w, "## Learning from events with nulls, progressive error of one pass, %\n\n| stream | null | present fields alone | expected values as well | difference |\n|---|---|---|---|---|\n")
	for _, d := range nullStreams {
		s, err := load(c.path(d.name, d.file), d.classes)
		if err != nil {
			return err
		}
		for _, group := range []int{1, d.group} {
			for _, fraction := range []float64{0.1, 0.3, 0.5} {
				var alone, filled, more []float64
				for seed := range uint64(nullSeeds) {
					a, err := learnNulls(s, d.columns, group, fraction, seed, false)
					if err != nil {
						return err
					}
					b, err := learnNulls(s, d.columns, group, fraction, seed, true)
					if err != nil {
						return err
					}
					alone, filled, more = append(alone, a), append(filled, b), append(more, b-a)
				}
				what := "fields"
				if group > 1 {
					what = fmt.Sprintf("groups of %d", group)
				}
				fmt.Fprintf(c.w, "| %s | %.0f %% of the %s | %.2f | %.2f | %+.2f ± %.2f |\n", d.name, 100*fraction, what,
					stat.Mean(alone, nil), stat.Mean(filled, nil), stat.Mean(more, nil), stat.StdDev(more, nil)/math.Sqrt(nullSeeds))
			}
		}
	}
	fmt.Fprintln(c.w)
	return nil
}

// learnNulls learns a set whose columns become fields. In each event, the fields of a fraction of the groups are null.
// If fill is set, null fields are replaced by imputed values before learning. It returns the progressive error in %.
func learnNulls(s *set, columns, group int, fraction float64, seed uint64, fill bool) (float64, error) {
	schema := fieldSchema(s, columns, group)
	l, err := online.New(online.DefaultConfig(), schema)
	if err != nil {
		return 0, err
	}
	r := rand.New(rand.NewPCG(seed, 1))
	var m *model.Linear
	wrong := 0
	for i := range s.examples {
		e := nulled(&s.examples[i], columns, group, fraction, r)
		p := l.Predict(&e)
		if model.Predict(p.Scores) != e.Label {
			wrong++
		}
		if !fill {
			l.Learn(&e, nil)
			continue
		}
		if i%50 == 0 { // imputed values change slowly, so updating the model rarely is enough
			m = l.Snapshot().Model().Compact()
		}
		e = expected(m, &e)
		l.Learn(&e, &p)
	}
	return 100 * float64(wrong) / float64(len(s.examples)), nil
}

// fieldSchema returns the Schema of a set whose columns become fields, in groups of the given size.
func fieldSchema(s *set, columns, group int) *event.Schema {
	schema := event.NewSchema(s.schema.Bits, s.schema.Classes, s.schema.MaxClasses)
	for i := range columns {
		f := event.Field{Name: strconv.Itoa(i + 1), Kind: event.Numeric}
		if group > 1 {
			f.Group = strconv.Itoa(i / group)
		}
		schema.AddField(f)
	}
	return schema
}

// nulled returns an event of fields in which some groups are null, drawn at random.
func nulled(e *event.Example, columns, group int, fraction float64, r *rand.Rand) event.Example {
	dead := make([]bool, (columns+group-1)/group)
	for i := range dead {
		dead[i] = r.Float64() < fraction
	}
	return without(e, columns, group, dead)
}

// without returns a copy of an event in which the fields of dead groups are null.
func without(e *event.Example, columns, group int, dead []bool) event.Example {
	out, at := event.Example{Label: e.Label, Weight: e.Weight, Field: []uint16{}}, 0
	for column := range uint32(columns) {
		x := 0.0
		if at < e.Features.Len() && e.Features.Index[at] == column {
			x = e.Features.Value[at]
			at++
		}
		if dead[int(column)/group] {
			out.Missing = append(out.Missing, uint16(column+1))
			continue
		}
		out.Field = append(out.Field, uint16(column+1))
		out.Features.Index, out.Features.Value = append(out.Features.Index, column), append(out.Features.Value, x)
	}
	return out
}

// expected returns a copy of an event in which nulls are replaced by the values that the model imputes.
func expected(m *model.Linear, e *event.Example) event.Example {
	m = m.WithMissing(m.Missing.Forced(model.MissingImpute))
	parts := m.Handling(e).Roles
	if parts == nil {
		return *e
	}
	c, x := m.Covariance, make([]float64, len(parts))
	known := m.Standardized(e, event.Vec{})
	for i, column := range known.Index {
		if at, ok := slices.BinarySearch(c.Columns, column); ok {
			x[at] = known.Value[i]
		}
	}
	m.MarkOutliers(known, parts)
	c.Imputation(parts).Expect(x)
	out := *e
	out.Field, out.Missing, out.Features = nil, nil, event.Vec{}
	at := 0
	add := func(column uint32, value float64) {
		out.Field = append(out.Field, uint16(column+1))
		out.Features.Index, out.Features.Value = append(out.Features.Index, column), append(out.Features.Value, value)
	}
	for _, id := range e.Missing {
		column := uint32(id - 1)
		for ; at < e.Features.Len() && e.Features.Index[at] < column; at++ {
			add(e.Features.Index[at], e.Features.Value[at])
		}
		place, ok := slices.BinarySearch(c.Columns, column)
		row := m.Rows.Row(column)
		if !ok || row == nil || parts[place] != model.Imputed {
			out.Missing = append(out.Missing, id)
			continue
		}
		s := m.Scaler.Standardization(row[m.Layout.Stats:])
		raw := s.Center + s.Scale*x[place]
		if s.Unit != 0 {
			raw = s.Unit * math.Sinh(raw)
		}
		add(column, raw)
	}
	for ; at < e.Features.Len(); at++ {
		add(e.Features.Index[at], e.Features.Value[at])
	}
	return out
}
