package encode

// This file determines how each feature of an event is scaled.

import (
	"blankout/internal/event"
	"blankout/internal/model"
	"blankout/online/scaling"
)

// kinds determines how the features of one event are scaled, in ascending order of their columns.
type kinds struct {
	n       *Encoder
	in      *Input
	fields  []uint16 // see method Encoder.fields
	settled bool     // the list of dense columns is final
	dense   []uint32 // dense columns from the current feature on
	spread  []uint32 // spread columns from the current feature on
	stored  int      // index of the first feature of the event that has not been passed
	field   uint16   // field of the current feature
	end     int      // end of the features that are only divided, from upTo
}

func (n *Encoder) kinds(in *Input) kinds {
	return kinds{n: n, in: in, fields: n.fields(in), settled: n.Scaling.Settled(), dense: n.Scaling.Scaler.Dense, spread: n.Scaling.SpreadColumns()}
}

// fields returns the fields of an event's features. It returns nil if there is a column whose scaling does not follow
// from the kind of its field.
func (n *Encoder) fields(in *Input) []uint16 {
	if len(n.Scaling.Scaler.Dense) > 0 || len(n.Scaling.SpreadColumns()) > 0 || n.Scaling.Scaler.Mode != model.StandardizeAuto {
		return nil
	}
	return in.Event.Field
}

// upTo returns the index after consecutive features, starting at i, that are only divided by a constant. It is for
// events of a sparse text format.
func (k *kinds) upTo(i int) int {
	mode := k.n.Scaling.Scaler.Mode
	if k.in.Event.Field != nil || i == len(k.in.Columns) || mode != model.StandardizeScale && !(mode == model.StandardizeAuto && k.settled) {
		return i
	}
	if i < k.end {
		return k.end
	}
	next, columns := uint32(model.FirstBasisColumn), k.in.Columns
	for _, list := range [2]*[]uint32{&k.dense, &k.spread} {
		if *list = from(*list, columns[i]); len(*list) > 0 {
			next = min(next, (*list)[0])
		}
	}
	if k.end = len(columns); columns[k.end-1] >= next {
		for k.end = i; columns[k.end] < next; {
			k.end++
		}
	}
	return k.end
}

// treat returns how feature i is scaled, and its field.
func (k *kinds) treat(i int) (t scaling.Treatment, field uint16) {
	if k.fields != nil {
		field = k.fields[i]
		return k.n.Scaling.Treat(k.n.Scaling.Kinds[field], false, false, k.settled), field
	}
	column, e, kind := k.in.Columns[i], k.in.Event, event.Sparse
	if len(k.n.Scaling.Kinds) > 0 {
		kind = k.n.Scaling.Kinds[0]
	}
	if e.Field != nil {
		for k.stored < len(e.Features.Index) && e.Features.Index[k.stored] < column {
			k.stored++
		}
		if k.stored < len(e.Features.Index) && e.Features.Index[k.stored] == column {
			k.field = e.Field[k.stored]
		}
		kind = k.n.Scaling.Kinds[k.field]
	}
	k.dense, k.spread = from(k.dense, column), from(k.spread, column)
	return k.n.Scaling.Treat(kind, begins(k.dense, column), begins(k.spread, column), k.settled), k.field
}

// from returns the part of an ascending list that starts at the given column. It needs no search if the list has all
// columns up to the given one.
func from(list []uint32, column uint32) []uint32 {
	if len(list) > 0 && column-list[0] < uint32(len(list)) && list[column-list[0]] == column {
		return list[column-list[0]:]
	}
	for len(list) > 0 && list[0] < column {
		list = list[1:]
	}
	return list
}

func begins(list []uint32, column uint32) bool { return len(list) > 0 && list[0] == column }
