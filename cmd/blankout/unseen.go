package main

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/dustin/go-humanize"

	"blankout/app/served"
	"blankout/config"
	"blankout/internal/event"
)

// This file counts the features of examples that a model has not seen.

// unseen counts the examples with features that a model has not seen, by field.
type unseen struct {
	model    *served.Model
	examples int // number of all examples
	with     int // number of examples with an unseen feature
	byField  map[uint16]*fieldUnseen
}

// unseenReport is the JSON form of unseen in the output of predict.
type unseenReport struct {
	Examples int           `json:"examples"` // number of examples with an unseen feature
	Fields   []fieldUnseen `json:"fields"`   // fields with unseen features, most frequent first
}

type fieldUnseen struct {
	Field    string `json:"field"` // "" for the columns of a sparse text format
	Examples int    `json:"examples"`
	Example  string `json:"example"` // first unseen feature
	kind     event.Kind
	column   uint32 // column of the first unseen feature
	last     int    // number of the last example with an unseen feature
}

// unseenShown is the largest number of fields in a report.
const unseenShown = 20

func (u *unseen) add(e *event.Example) {
	u.examples++
	some := false
	u.model.EachUnseen(e, func(f served.Feature) {
		some = true
		r := u.byField[f.Field]
		if r == nil {
			r = &fieldUnseen{column: f.Column}
			u.byField[f.Field] = r
		}
		if r.last != u.examples {
			r.last = u.examples
			r.Examples++
		}
	})
	if some {
		u.with++
	}
}

// report returns the counts. The argument s is the Schema of the examples.
func (u *unseen) report(s *event.Schema) unseenReport {
	r := unseenReport{Examples: u.with, Fields: []fieldUnseen{}}
	if u.with == 0 {
		return r
	}
	name := s.Namer()
	for id, f := range u.byField {
		f.Field, f.Example, f.kind = s.Fields[id].Name, name(f.column), s.Fields[id].Kind
		r.Fields = append(r.Fields, *f)
	}
	slices.SortFunc(r.Fields, func(a, b fieldUnseen) int {
		return cmp.Or(cmp.Compare(b.Examples, a.Examples), cmp.Compare(a.Field, b.Field), cmp.Compare(a.kind, b.kind))
	})
	r.Fields = r.Fields[:min(len(r.Fields), unseenShown)]
	return r
}

// warnOfUnseen prints a warning about each field with unseen values in more than a tenth of the examples, and in at
// least five examples. It ignores words and columns of sparse text, where new values are frequent.
func (p *program) warnOfUnseen(r unseenReport, examples int) {
	for _, f := range r.Fields {
		if f.Field != "" && f.kind != event.Words && f.kind != event.Cross && f.Examples >= 5 && 10*f.Examples > examples {
			p.warn(fmt.Sprintf("field %q has a value unknown to the model in %s of %s, such as %s", f.Field, humanize.Comma(int64(f.Examples)), plural(examples, "example"), config.Quote(event.Printable(f.Example))))
		}
	}
}
