package health

import (
	"reflect"
	"testing"
	"unsafe"

	"blankout/internal/coder"
	"blankout/internal/event"
	"blankout/internal/model"
)

// fill sets every number, boolean and kind in v to a different value, using the counter n. It skips the fields that but
// names.
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

// TestStateHoldsEverything checks that the encoded state contains all struct fields of fieldHealth and of fieldChange.
func TestStateHoldsEverything(t *testing.T) {
	n := 0
	h := &Fields{}
	h.events, h.named, h.start = 7, 6, Moment{5, 4}
	h.fields, h.watched = make([]fieldHealth, 5), model.NewFieldSet(5)
	for i := range h.fields {
		f := &h.fields[i]
		fill(reflect.ValueOf(f).Elem(), &n, map[string]bool{"kind": true, "leader": true, "name": true, "measures": true})
		h.watched.Add([]uint16{uint16(i)})
		f.leader = i
		f.kind = []event.Kind{event.Numeric, event.Categorical, event.Boolean}[i%3]
		for _, kind := range measuresOf(f.kind) {
			m := &f.measures[kind]
			fill(reflect.ValueOf(m).Elem(), &n, nil)
		}
	}
	h.link(3, 1)
	h.link(4, 1)
	h.alarms = Alarms{raised: 3, changed: 5, changes: make([]fieldChange, 3)}
	for i := range h.alarms.changes {
		fill(reflect.ValueOf(&h.alarms.changes[i]).Elem(), &n, nil)
	}
	c := &coder.Coder{}
	h.State(c)
	var got Fields
	d := coder.Read(c.Out)
	if got.State(d); !d.Done() {
		t.Fatal("what is written cannot be read")
	}
	if !reflect.DeepEqual(&got, h) {
		t.Errorf("%+v\nwant %+v", &got, h)
	}
	// A truncated or invalid state must be rejected without a panic.
	for n := range c.Out {
		d := coder.Read(c.Out[:n])
		if new(Fields).State(d); d.Done() {
			t.Fatalf("%d of %d bytes are read as a state", n, len(c.Out))
		}
	}
	h.alarms.changes[0].field = 5
	c = &coder.Coder{}
	h.State(c)
	d = coder.Read(c.Out)
	if new(Fields).State(d); d.Done() {
		t.Error("a state about more fields than there are is read")
	}
}
