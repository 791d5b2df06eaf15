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
	rows   *model.Table
	number uint64
	time   int64 // time of the next event
	every  int64 // interval in milliseconds
	rise   float64
}

func newEvents(fields ...event.Field) *events {
	v := &events{fields: append([]event.Field{{}}, fields...), usual: &model.Missing{}, rows: model.NewTable(model.ScalerWidth), time: 1_767_225_600_000, every: 1000}
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
		w.Take(&health.Met{Event: e, Came: e, Number: v.number, Named: true, Present: present, Fields: v.fields, Rows: v.rows, Usual: v.usual, Error: 0.1})
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

// TestRareFieldIsMissedInTime checks the absence of rare fields. A field that was present only a few times must raise
// no alarm. A field that was in a fifth of the events for a long time must raise an alarm after about 2,100 events.
func TestRareFieldIsMissedInTime(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 4))
	v, w := newEvents(event.Field{Name: "x", Kind: event.Boolean}, event.Field{Name: "few", Kind: event.Boolean}, event.Field{Name: "many", Kind: event.Boolean}), &health.Fields{}
	v.usual.Usual, v.rise = []uint16{1}, -1
	feed := func(n int, few, many float64) {
		for range n {
			holds := []uint16{1}
			if r.Float64() < few {
				holds = append(holds, 2)
			}
			if r.Float64() < many {
				holds = append(holds, 3)
			}
			v.show(0, holds, nil, w)
		}
	}
	feed(5000, 0.01, 0.2)
	feed(160_000, 0, 0.2)
	if h := v.report(w); h.Raised > 0 {
		t.Fatalf("%+v", h.Changes)
	}
	feed(2800, 0, 0)
	if h := v.report(w); h.Raised != 1 || h.Changes[0].Field != "many" || h.Changes[0].Usual > 0.01 {
		t.Errorf("%+v", h.Changes)
	}
}

// TestRareFieldComesAndGoes checks a field that is repeatedly present for a while and then absent for longer. It must
// raise an alarm only after an absence of several times its longest earlier absence.
func TestRareFieldComesAndGoes(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	v, w := newEvents(event.Field{Name: "x", Kind: event.Boolean}, event.Field{Name: "y", Kind: event.Boolean}), &health.Fields{}
	v.usual.Usual, v.rise = []uint16{1}, -1
	longest := 0
	for range 200 {
		for range 2000 {
			holds := []uint16{1}
			if r.Float64() < 0.3 {
				holds = append(holds, 2)
			}
			v.show(0, holds, nil, w)
		}
		away := 8000 + r.IntN(4000)
		longest = max(longest, away)
		for range away {
			v.show(0, []uint16{1}, nil, w)
		}
	}
	if h := v.report(w); h.Raised > 0 {
		t.Fatalf("%+v", h.Changes)
	}
	for range 6 * longest {
		v.show(0, []uint16{1}, nil, w)
	}
	if h := v.report(w); h.Raised != 1 || h.Changes[0].Comes != "no more" {
		t.Errorf("%+v", h)
	}
}
