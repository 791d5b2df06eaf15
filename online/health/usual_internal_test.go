package health

import (
	"slices"
	"testing"

	"blankout/internal/event"
	"blankout/internal/model"
)

// events passes events to Fields. It stores the current kind of value of each field: 0 if the field is omitted, and
// minus the first kind of its name if the field is null.
type events struct {
	fields []event.Field
	usual  *model.Missing
	number uint64
	time   int64 // time of the next event
	every  int64 // interval in milliseconds
	rise   float64
}

func newEvents(fields ...event.Field) *events {
	v := &events{fields: append([]event.Field{{}}, fields...), usual: &model.Missing{}, time: 1_767_225_600_000, every: 1000}
	for id := 1; id < len(v.fields); id++ {
		if !slices.ContainsFunc(v.fields[:id], func(f event.Field) bool { return f.Name == v.fields[id].Name }) {
			v.usual.Usual = append(v.usual.Usual, uint16(id))
		}
	}
	return v
}

// show passes an event that has the fields in holds. The fields in null are null.
func (v *events) show(x float64, holds, null []uint16, to ...*Fields) {
	v.number++
	e := &event.Example{Time: v.time, Missing: null}
	v.time += v.every
	for _, id := range holds {
		e.Field, e.Features.Index, e.Features.Value = append(e.Field, id), append(e.Features.Index, uint32(id)), append(e.Features.Value, x)
	}
	present := model.NewFieldSet(len(v.fields))
	present.Add(holds)
	for _, w := range to {
		w.Take(&Met{Event: e, Came: e, Number: v.number, Named: true, Present: present, Fields: v.fields, Usual: v.usual, Error: 0.1})
		if v.rise >= 0 && v.number%32 == 0 {
			for _, id := range holds[:min(len(holds), 4)] {
				w.Cost(id, 0, v.rise*float64(v.number/32%2))
			}
		}
	}
}

// TestUsualIsBounded checks that memory is bounded, whatever the number of fields and of kinds of values.
func TestUsualIsBounded(t *testing.T) {
	var fields []event.Field
	for i := range 6000 {
		fields = append(fields, event.Field{Name: string(rune('a' + i%2500)), Kind: event.Kind(1 + i/2500)})
	}
	v, w := newEvents(fields...), &Fields{}
	v.usual.Usual, v.rise = nil, -1
	for n := range 40 * healthBlock {
		v.show(0, []uint16{uint16(1 + n%6000)}, nil, w)
	}
	if h := w; len(h.fields) != MostFields || h.linked != MostFields || len(h.alike) != MostFields-1-2500 {
		t.Errorf("%d fields, %d names of several kinds", len(h.fields), len(h.alike))
	}
}
