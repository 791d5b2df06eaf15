package online

import (
	"math/rand/v2"
	"strings"
	"testing"

	"blankout/online/watch"

	"blankout/internal/event"
	"blankout/online/synthetic"
)

// A field that comes as a number and, in one event of twenty, as a name is named, with how
// often it is which; seven in a thousand are no reason, and neither are fields of one kind.
func TestMixedKinds(t *testing.T) {
	c := DefaultConfig()
	s := event.NewSchema(10, []string{"a", "b"}, 2)
	number := s.AddField(event.Field{Name: "amount\x1b", Kind: event.Numeric})
	name := s.AddField(event.Field{Name: "amount\x1b", Kind: event.Categorical})
	other := s.AddField(event.Field{Name: "country", Kind: event.Categorical})
	rare := s.AddField(event.Field{Name: "country", Kind: event.Boolean})
	l, err := New(c, s)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 1))
	for i := range 3000 {
		e := synthetic.Drawn(r)
		e.Features = event.Vec{Index: []uint32{0, 5}, Value: []float64{e.Features.Value[0], 1}}
		e.Field = []uint16{number, other}
		if r.IntN(20) == 0 {
			e.Features.Index[0], e.Features.Value[0], e.Field[0] = 1, 1, name
		}
		if i%141 == 140 { // 7 of the first 990
			e.Field[1] = rare
		}
		l.Learn(e, nil)
		if i == 990 {
			if w := l.Warnings(nil, true); len(w) != 1 || strings.Contains(w[0].Text, "country") {
				t.Errorf("%v; %+v", w, l.fields.Kinds)
			}
		}
		if w := l.Warnings(nil, false); i < watch.WarnAfter-1 && len(w) > 0 {
			t.Fatalf("event %d: %v", i, w)
		}
	}
	w := l.Warnings(nil, false)
	if len(w) != 1 || w[0].Kind != "mixed-kinds" || !strings.Contains(w[0].Text, `"amount\x1b" (numeric in 9`) || !strings.Contains(w[0].Text, "categorical in ") || strings.Contains(w[0].Text, "country") {
		t.Errorf("%v; %+v", w, l.fields.Kinds)
	}
}
