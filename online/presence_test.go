package online_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/longtest"
	"blankout/internal/model"
	"blankout/internal/must"
	"blankout/online"
	"blankout/online/optimizers"
	"blankout/online/scaling"
	"blankout/online/synthetic"
)

// absences is a stream of events with numeric fields, as from JSON. The first field is always present. The second field
// is omitted in two of five events, more often in class 0. The third field is null in two of five events. The fourth
// field is omitted in one of twenty events.
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
	add := func(field uint16) { eventtest.Put(e, uint32(10*field), 300+a.r.NormFloat64(), field) }
	add(1)
	if a.r.Float64() < 0.2+0.8*float64(e.Label) {
		add(2)
	}
	if a.n%5 < 2 {
		e.Missing = append(e.Missing, 3)
	} else {
		add(3)
	}
	if a.n%20 != 0 {
		add(4)
	}
	return e
}

// TestPresence checks that a number that is often omitted gets a presence column, and that the column improves
// predictions. A number that is null or rarely omitted must not get a presence column.
func TestPresence(t *testing.T) {
	longtest.NotRaced(t)
	errors := map[string]float64{}
	for _, presence := range []string{"auto", "none"} {
		a := newAbsences(1)
		c := asIs(online.DefaultConfig())
		c.Presence, c.Optimizer = presence, "adagrad" // the second-order expert has its own splines
		l := must.Get(online.New(c, a.schema))(t)
		for range 6000 {
			l.Learn(a.next(), nil)
		}
		splines := l.Snapshot().Model().Scaler.Splines
		must.Require(t, presence != "none" || splines == nil, "none: %+v", splines)
		must.Require(t, presence != "auto" || splines != nil && slices.Equal(splines.Columns, []uint32{20}) && slices.Equal(splines.Knots[0], model.Present()), "auto: %+v, want one of column 20", splines)
		errors[presence] = l.Report().Window.Error()
		// The published model must also have the presence column, and explanations must name it.
		m := l.Snapshot().Model()
		a2 := newAbsences(2)
		for range 50 {
			e := a2.next()
			got := l.Snapshot().Model().Score(e, make([]float64, 1))
			want := alone(l.Learn(e, nil)).Scores
			must.Require(t, math.Abs(got[0]-want[0]) <= 1e-9*(1+math.Abs(want[0])), "%s: the model scores %v, the Learner %v", presence, got, want)
		}
		if presence == "auto" {
			must.Equal(t, m.Namer()(model.FirstBasisColumn), m.Namer()(20)+"@present", "it is named")
		}
	}
	// The smallest possible error is .1: the field is present with probability .2 in one class and 1 in the other.
	must.True(t, errors["auto"] <= 0.13 && errors["none"] >= 0.3, "errors %v", errors)
}

// TestPresenceOfManyRows checks that a learner with many rows after the first events adds no presence columns, before
// and after a restart. Rows that are added later must not change that.
func TestPresenceOfManyRows(t *testing.T) {
	longtest.NotRaced(t)
	for _, c := range []struct {
		words int // new categories per event
		found bool
	}{{4, true}, {5, false}} {
		for _, at := range []int{500, 1000, 1001, 1200} {
			a := newAbsences(5)
			a.schema = event.NewSchema(32_000, []string{"no", "yes"}, 2)
			for i := range 4 {
				a.schema.Fields = append(a.schema.Fields, event.Field{Name: fmt.Sprint("n", i), Kind: event.Numeric})
			}
			a.schema.Fields = append(a.schema.Fields, event.Field{Name: "text", Kind: event.Words})
			config := online.DefaultConfig()
			config.Optimizer = "adagrad"
			l := must.Get(online.New(config, a.schema))(t)
			for n := 1; n <= 1300; n++ {
				e := a.next()
				for word := range c.words {
					eventtest.Put(e, uint32(100+n*c.words+word), 1, 5)
				}
				if l.Learn(e, nil); n == at {
					l = restart(t, config, l)
				}
			}
			rows := l.Report().Rows
			must.Require(t, rows >= 4*1300, "%d rows", rows)
			found := l.Snapshot().Model().Scaler.Splines != nil
			must.True(t, found == c.found, "%d words an event, saved at %d: presence %v", c.words, at, found)
		}
	}
}

// TestPresenceInEveryOptimizer tests every optimizer with presence columns. The snapshot must give the same scores as
// Learn, and all numbers must be finite. A learner that is restored before or after presence columns are added must
// continue bit by bit.
func TestPresenceInEveryOptimizer(t *testing.T) {
	longtest.Numeric(t)
	for i, rule := range optimizers.Table {
		for j, noise := range []string{"auto", "none", "dropout:0.4", "dropout:0.2+group:0.4"} {
			for k, classes := range []int{2, 3} {
				c := online.DefaultConfig()
				c.Optimizer, c.Noise = rule.Name, noise
				if c.Check() != nil || (i+j+k)%2 > 0 { // every two values are combined
					continue
				}
				t.Run(fmt.Sprint(rule.Name, "/", noise, "/", classes), func(t *testing.T) { restoredWithPresence(t, c, classes) })
			}
		}
	}
}

func restoredWithPresence(t *testing.T, c online.Config, classes int) {
	l, s := newTwins(t, c, synthetic.StreamSchema(classes)), synthetic.NewStream(7, classes)
	s.Missing, s.Omits = true, true
	cuts := []int{400, scaling.KnotEvents, scaling.KnotEvents + 60}
	for i := range scaling.KnotEvents + 120 {
		e, want := s.Next(), []float64(nil)
		if slices.Contains(cuts, i) {
			l.restart()
			if i != scaling.KnotEvents { // new presence columns have no weight
				want = score(l.Snapshot().Model(), e)
			}
		}
		got := alone(l.Learn(e, nil)).Scores
		must.True(t, want == nil || near(got, want, 1e-9), "event %d: Learn scored %v, the snapshot scores %v", i, got, want)
	}
	must.Require(t, l.Snapshot().Model().Scaler.Splines != nil, "no presence was found")
	l.same(t, "presence")
	finite(t, l.Learner)
}
