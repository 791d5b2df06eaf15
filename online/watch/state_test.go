package watch

import (
	"reflect"
	"testing"
	"unsafe"

	"blankout/internal/coder"
)

// fill gives every number, truth value and kind within v another value that n counts, but for
// the fields named.
func fill(v reflect.Value, n *int, but map[string]bool) {
	*n++
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Field(i); !but[v.Type().Field(i).Name] {
				fill(reflect.NewAt(f.Type(), unsafe.Pointer(f.UnsafeAddr())).Elem(), n, but)
			}
		}
	case reflect.Float64:
		v.SetFloat(float64(*n))
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(*n % 4)) // kinds and ids are small
	case reflect.Uint16, reflect.Uint64, reflect.Uint8:
		v.SetUint(uint64(*n%4) + 1)
	case reflect.Bool:
		v.SetBool(true)
	}
}

// Every part of what is kept of a field, a kind, an alarm and a spell is in the state.
func TestStateHoldsEverything(t *testing.T) {
	n := 0
	w := New()
	h := &w.Health
	h.fields = make([]fieldHealth, 5)
	h.kinds.fields, h.kinds.mixed, h.rare.fields = make([]kindCount, 5), make([]mixedName, 2), make([]rareField, 5)
	for i := range h.kinds.fields {
		fill(reflect.ValueOf(&h.kinds.fields[i]).Elem(), &n, nil)
		fill(reflect.ValueOf(&h.rare.fields[i]).Elem(), &n, nil)
		fill(reflect.ValueOf(&h.fields[i].cost.square).Elem(), &n, nil)
	}
	h.rare.events = 7
	h.rare.watch = h.rare.watch.Room(5)
	h.rare.watch.Add([]uint16{0, 1, 2, 3, 4})
	for i := range h.kinds.mixed {
		fill(reflect.ValueOf(&h.kinds.mixed[i]).Elem(), &n, map[string]bool{"moved": true})
		h.kinds.mixed[i].ids = []uint16{uint16(i), uint16(i + 2)}
		h.kinds.mixed[i].usual = uint16(i + 2)
		h.kinds.link(uint16(i+2), uint16(i))
	}
	h.alarms = Alarms{on: map[alarmKey]*alarm{}, raised: 3, noted: 4, changed: 5, changes: make([]fieldChange, 3), spells: Spells{make([]spell, 3)}}
	unsaved := map[string]bool{"cheap": true, "field": true}
	for i := range 3 {
		on := &alarm{}
		fill(reflect.ValueOf(on).Elem(), &n, unsaved)
		on.field = i
		h.alarms.on[alarmKey{i, on.kind}] = on
		fill(reflect.ValueOf(&h.alarms.changes[i]).Elem(), &n, unsaved)
		fill(reflect.ValueOf(&h.alarms.spells.list[i]).Elem(), &n, unsaved)
		h.alarms.spells.list[i].field = i
	}
	c := &coder.Coder{}
	w.Block(c)
	again := New()
	again.Health.fields = make([]fieldHealth, 5)
	d := coder.Read(c.Out)
	if again.Block(d); !d.Done() {
		t.Fatal("what is written cannot be read")
	}
	got := &again.Health
	for _, x := range []struct {
		name      string
		got, want any
	}{{"alarms", got.alarms, h.alarms}, {"kinds", got.kinds, h.kinds}, {"rare", got.rare, h.rare}, {"costs", got.fields, h.fields}} {
		if !reflect.DeepEqual(x.got, x.want) {
			t.Errorf("%s: %+v\nwant %+v", x.name, x.got, x.want)
		}
	}
	// A state that is cut short or holds what cannot be is refused, and is no panic.
	for n := range c.Out {
		short := New()
		short.Health.fields = make([]fieldHealth, 5)
		if d := coder.Read(c.Out[:n]); n < len(c.Out) {
			if short.Block(d); d.Done() {
				t.Fatalf("%d of %d bytes are read as a state", n, len(c.Out))
			}
		}
	}
	few := New()
	few.Health.fields = make([]fieldHealth, 2)
	if d := coder.Read(c.Out); d != nil {
		if few.Block(d); d.Done() {
			t.Error("a state about more fields than there are is read")
		}
	}
}
