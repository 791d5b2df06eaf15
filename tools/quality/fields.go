package main

// This file makes events whose columns are fields, and makes some of their fields null.

import (
	"math/rand/v2"
	"strconv"

	"blankout/internal/event"
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
	return rebuilt(e, columns, func(column int, x float64, _ bool) (float64, bool) { return x, !dead[column/group] })
}

// rebuilt returns a copy of an event with a field for each column. The function value returns the value of a column, or
// false if it is null. It is called with the value in e, or with 0 if the column is not present there.
func rebuilt(e *event.Example, columns int, value func(column int, x float64, present bool) (float64, bool)) event.Example {
	out, at := event.Example{Label: e.Label, Weight: e.Weight, Field: []uint16{}}, 0
	for column := range columns {
		x, present := 0.0, at < e.Features.Len() && e.Features.Index[at] == uint32(column)
		if present {
			x = e.Features.Value[at]
			at++
		}
		if x, ok := value(column, x, present); ok {
			out.Field = append(out.Field, uint16(column+1))
			out.Features.Index, out.Features.Value = append(out.Features.Index, uint32(column)), append(out.Features.Value, x)
		} else {
			out.Missing = append(out.Missing, uint16(column+1))
		}
	}
	return out
}
