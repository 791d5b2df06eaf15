package online

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout/internal/event"
	"blankout/internal/longtest"
	"blankout/internal/model"
)

// absences is a stream of JSON-like events of numeric fields: the first is always there,
// the second is left out of two events of five, more often in class 0, the third is null as
// often, the fourth is left out of one event of twenty.
type absences struct {
	schema *event.Schema
	r      *rand.Rand
	n      int
}

func newAbsences(seed uint64) *absences {
	s := event.NewSchema(8, []string{"no", "yes"}, 2)
	for i := range 4 {
		s.Fields = append(s.Fields, event.Field{Name: fmt.Sprint("n", i), Kind: event.Numeric})
	}
	return &absences{schema: s, r: rand.New(rand.NewPCG(seed, 1))}
}

func (a *absences) next() *event.Example {
	e := &event.Example{Label: a.r.IntN(2), Weight: 1}
	a.n++
	put := func(field uint16) {
		e.Features.Index = append(e.Features.Index, uint32(10*field))
		e.Features.Value = append(e.Features.Value, 300+a.r.NormFloat64())
		e.Field = append(e.Field, field)
	}
	put(1)
	if a.r.Float64() < 0.2+0.8*float64(e.Label) {
		put(2)
	}
	if a.n%5 < 2 {
		e.Missing = append(e.Missing, 3)
	} else {
		put(3)
	}
	if a.n%20 != 0 {
		put(4)
	}
	return e
}

// A number that many events leave out tells by that it is there what its mean cannot; one
// that is null, or seldom left out, has no column for that.
func TestPresence(t *testing.T) {
	longtest.NotRaced(t)
	errors := map[string]float64{}
	for _, presence := range []string{"auto", "none"} {
		a := newAbsences(1)
		c := DefaultConfig()
		c.Presence, c.Optimizer = presence, "adagrad" // the second-order expert has curves of its own
		l, err := New(c, a.schema)
		if err != nil {
			t.Fatal(err)
		}
		for range 6000 {
			l.Learn(a.next(), nil)
		}
		curves := l.scaling.Scaler.Curves
		if presence == "none" && curves != nil {
			t.Fatalf("none: %+v", curves)
		}
		if presence == "auto" && (curves == nil || !slices.Equal(curves.Columns, []uint32{20}) || !slices.Equal(curves.Knots[0], model.Present())) {
			t.Fatalf("auto: %+v, want one of column 20", curves)
		}
		errors[presence] = l.Report().Window.Error()
		// What is served says so too, and explains it under a name.
		m := l.Snapshot().Model()
		a2 := newAbsences(2)
		for range 50 {
			e := a2.next()
			got := l.Snapshot().Model().Score(e, make([]float64, 1))
			if want := l.Learn(e, nil).Scores; math.Abs(got[0]-want[0]) > 1e-9*(1+math.Abs(want[0])) {
				t.Fatalf("%s: the model scores %v, the Learner %v", presence, got, want)
			}
		}
		if presence == "auto" {
			if name := m.Namer()(model.FirstHat); name != m.Namer()(20)+"@present" {
				t.Errorf("it is named %s", name)
			}
		}
	}
	// Bayes' error is .1: there with .2 and 1.
	if errors["auto"] > 0.13 || errors["none"] < 0.3 {
		t.Errorf("errors %v", errors)
	}
}

// A learner that has many rows after the first events looks for no presence, before and after a restart alike; rows that
// come later change nothing.
func TestPresenceOfManyRows(t *testing.T) {
	longtest.NotRaced(t)
	for _, c := range []struct {
		words int // new ones in each event
		found bool
	}{{4, true}, {5, false}} {
		for _, at := range []int{500, 1000, 1001, 1200} {
			a := newAbsences(5)
			a.schema = event.NewSchema(32_000, []string{"no", "yes"}, 2)
			for i := range 4 {
				a.schema.Fields = append(a.schema.Fields, event.Field{Name: fmt.Sprint("n", i), Kind: event.Numeric})
			}
			a.schema.Fields = append(a.schema.Fields, event.Field{Name: "text", Kind: event.Words})
			config := DefaultConfig()
			config.Optimizer = "adagrad"
			l, err := New(config, a.schema)
			if err != nil {
				t.Fatal(err)
			}
			for n := 1; n <= 1300; n++ {
				e := a.next()
				for word := range c.words {
					e.Features.Index = append(e.Features.Index, uint32(100+n*c.words+word))
					e.Features.Value = append(e.Features.Value, 1)
					e.Field = append(e.Field, 5)
				}
				if l.Learn(e, nil); n == at {
					blocks, err := l.Snapshot().Blocks()
					if err != nil {
						t.Fatal(err)
					}
					if l, err = Restore(config, blocks); err != nil {
						t.Fatal(err)
					}
				}
			}
			if rows := l.table.Len(); rows < 4*1300 {
				t.Fatalf("%d rows", rows)
			}
			if found := l.scaling.Scaler.Curves != nil; found != c.found {
				t.Errorf("%d words an event, saved at %d: presence %v", c.words, at, found)
			}
		}
	}
}

// Presence goes on to the bit over a restart, before and after it is found; a learner keeps
// what it began with; an older file's learner has none; several learners find none themselves.
func TestPresenceIsKept(t *testing.T) {
	longtest.NotRaced(t)
	for _, at := range []int{500, 1000, 1001, 1500} {
		a := newAbsences(3)
		c := DefaultConfig()
		l, err := New(c, a.schema)
		if err != nil {
			t.Fatal(err)
		}
		var events []*event.Example
		for range 2000 {
			events = append(events, a.next())
		}
		for _, e := range events[:at] {
			l.Learn(e, nil)
		}
		blocks, err := l.Snapshot().Blocks()
		if err != nil {
			t.Fatal(err)
		}
		other := c
		other.Presence = "none" // does not count any more
		again, err := Restore(other, blocks)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events[at:] {
			x, y := slices.Clone(l.Learn(e, nil).Scores), again.Learn(e, nil).Scores
			if !slices.Equal(x, y) {
				t.Fatalf("saved at %d: %v, restored %v", at, x, y)
			}
		}
		if again.scaling.Scaler.Curves == nil || FingerprintOf(again.config, again.schema)["presence"] != "auto" {
			t.Errorf("saved at %d: no presence", at)
		}
	}
	l, err := New(DefaultConfig().Shared(), newAbsences(1).schema)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.beginInterval(2, 1000); err != nil {
		t.Fatal(err)
	}
	a := newAbsences(4)
	for range 1200 {
		l.Learn(a.next(), nil)
	}
	if l.scaling.Scaler.Curves != nil {
		t.Error("a learner that shares looks for presence")
	}
	if c, err := (Fingerprint{}).Config(); err != nil || c.Presence != "none" {
		t.Errorf("a file that does not say: %q %v", c.Presence, err)
	}
	for key, c := range map[string]Config{"scale": {Standardize: "scale"}, "gaussian": {Noise: "gaussian:0.1"}, "refresh": {IRLSBatch: 200}} {
		d := DefaultConfig()
		if c.Standardize != "" {
			d.Standardize = c.Standardize
		}
		if c.Noise != "" {
			d.Noise = c.Noise
		}
		d.IRLSBatch, d.IRLSWindow = c.IRLSBatch, 5*c.IRLSBatch
		l, err := New(d, newAbsences(1).schema)
		if err != nil {
			t.Fatal(err)
		}
		a := newAbsences(4)
		for range 1200 {
			l.Learn(a.next(), nil)
		}
		if c := l.scaling.Scaler.Curves; c != nil && slices.ContainsFunc(c.Knots, func(knots []float64) bool { return len(knots) == 1 }) {
			t.Errorf("%s: presence where it cannot be", key)
		}
	}
}
