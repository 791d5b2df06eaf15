package online_test

import (
	"math/rand/v2"
	"testing"

	"blankout/internal/event"
	"blankout/online"
)

// A number that is always the same has not changed, and does not lead the fields of which nothing is wrong. It can
// never be found stuck.
func TestConstantFieldIsNotTheWorst(t *testing.T) {
	schema := event.NewSchema(8, []string{"a", "b"}, 2)
	for _, name := range []string{"x", "constant", "y"} {
		schema.AddField(event.Field{Name: name, Kind: event.Numeric})
	}
	l, err := online.New(online.DefaultConfig(), schema)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 6000 {
		x, y := r.NormFloat64(), r.NormFloat64()
		e := &event.Example{Weight: 1, Field: []uint16{1, 2, 3}, Features: event.Vec{Index: []uint32{1, 2, 3}, Value: []float64{x, 0.1, y}}}
		if x+0.5*y > 0 {
			e.Label = 1
		}
		l.Learn(e, nil)
	}
	fields := l.Report().Health.Fields
	if len(fields) != 3 || fields[0].Field == "constant" {
		t.Fatalf("the first of %d fields is %s", len(fields), fields[0].Field)
	}
	for _, f := range fields {
		if f.Deviation == nil || !(f.Deviation.Change > 0.8 && f.Deviation.Change < 1.2) {
			t.Errorf("%s: the deviation has changed by %+v", f.Field, f.Deviation)
		}
		if constant := f.Field == "constant"; f.NeverStuck != constant || f.Repeats == nil || (*f.Repeats > 0.99) != constant {
			t.Errorf("%s repeats %v, never found: %v", f.Field, f.Repeats, f.NeverStuck)
		}
	}
}
