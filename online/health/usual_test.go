package health_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout/internal/event"
	"blankout/internal/longtest"
	"blankout/internal/model"
	"blankout/online/health"
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
func (v *events) show(x float64, holds, null []uint16, to ...*health.Fields) {
	v.number++
	e := &event.Example{Time: v.time, Missing: null}
	v.time += v.every
	for _, id := range holds {
		e.Field, e.Features.Index, e.Features.Value = append(e.Field, id), append(e.Features.Index, uint32(id)), append(e.Features.Value, x)
	}
	present := model.NewFieldSet(len(v.fields))
	present.Add(holds)
	for _, w := range to {
		w.Take(&health.Met{Event: e, Came: e, Number: v.number, Named: true, Present: present, Fields: v.fields, Usual: v.usual, Error: 0.1})
		if v.rise >= 0 && v.number%32 == 0 {
			for _, id := range holds[:min(len(holds), 4)] {
				w.Cost(id, 0, v.rise*float64(v.number/32%2))
			}
		}
	}
}

func (v *events) report(w *health.Fields) *health.Health {
	return w.Report(v.number, v.fields, 0.1, nil)
}

// TestUsualFalseAlarms checks that there are no alarms about missing fields if fields are present at random, at any
// constant rate or in bursts. There must also be no alarms if the kind of a field's value changes at random.
func TestUsualFalseAlarms(t *testing.T) {
	seeds := 12
	if longtest.Asked() {
		seeds = 150
	}
	fractions := []float64{0.0003, 0.001, 0.003, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 0.48}
	for seed := range seeds {
		r := rand.New(rand.NewPCG(uint64(seed), 3))
		var fields []event.Field
		for i := range 2 * len(fractions) {
			fields = append(fields, event.Field{Name: string(rune('a' + i)), Kind: event.Boolean})
		}
		for _, kind := range []event.Kind{event.Numeric, event.Categorical} {
			for i := range fractions {
				fields = append(fields, event.Field{Name: string(rune('A' + i)), Kind: kind})
			}
		}
		v, w := newEvents(fields...), &health.Fields{}
		v.usual.Usual = nil
		runs := make([]int, len(fractions))
		next := make([]int, len(fractions)) // the next event of each field
		length := 1 + r.IntN(40)
		for n := range 150_000 {
			var holds []uint16
			for i, fraction := range fractions {
				if next[i] == n {
					if n > 0 {
						holds = append(holds, uint16(1+i))
					}
					next[i] = n + 1 + int(math.Log(1-r.Float64())/math.Log(1-fraction))
				}
				switch {
				case runs[i] > 0:
					runs[i]--
				case r.Float64() < fraction/float64(length):
					runs[i] = length - 1
				default:
					continue
				}
				holds = append(holds, uint16(1+len(fractions)+i))
			}
			for i, fraction := range fractions {
				id := 1 + 2*len(fractions) + i
				if r.Float64() < fraction {
					id += len(fractions)
				}
				holds = append(holds, uint16(id))
			}
			slices.Sort(holds)
			v.show(0, holds, nil, w)
		}
		if h := v.report(w); h.Raised > 0 {
			for _, a := range h.Changes {
				t.Errorf("seed %d, runs of %d: event %d: %s", seed, length, a.Event, a.Text)
			}
		}
	}
}

// TestFieldOfAnotherKindIsNotMissing checks a number that is sometimes text. There must be no alarm when its value is
// always a number from some event on.
func TestFieldOfAnotherKindIsNotMissing(t *testing.T) {
	for _, every := range []int{20, 3} {
		v, w := newEvents(event.Field{Name: "x", Kind: event.Numeric}, event.Field{Name: "x", Kind: event.Categorical}), &health.Fields{}
		v.usual.Usual = []uint16{1, 2}
		for n := range 200_000 {
			holds := []uint16{1}
			if n%every == 0 && n < 100_000 {
				holds[0] = 2
			}
			v.show(float64(n%7), holds, nil, w)
		}
		if h := v.report(w); h.Raised > 0 {
			t.Errorf("text in one of %d: %+v", every, h.Changes)
		}
	}
}
