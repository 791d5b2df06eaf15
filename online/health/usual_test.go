package health

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"blankout/internal/coder"
	"blankout/internal/event"
	"blankout/internal/longtest"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/internal/must"
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
				w.fields[id].cost.add(0, v.rise*float64(v.number/32%2))
			}
		}
	}
}

func (v *events) report(w *Fields) *Health {
	return w.Report(v.number, v.fields, 0.1, nil)
}

// TestUsualFalseAlarms checks that there are no alarms about missing fields if fields are present at random, at any
// constant rate or in bursts. There must also be no alarms if the kind of a field's value changes at random.
func TestUsualFalseAlarms(t *testing.T) {
	seeds := must.Either(longtest.Asked(), 150, 6)
	fractions := []float64{0.0003, 0.001, 0.003, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 0.48}
	for seed := range seeds {
		r := rand.New(rand.NewPCG(uint64(seed), 3))
		fields := must.List(2*len(fractions), func(i int) event.Field { return event.Field{Name: string(rune('a' + i)), Kind: event.Boolean} })
		for _, kind := range []event.Kind{event.Numeric, event.Categorical} {
			for i := range fractions {
				fields = append(fields, event.Field{Name: string(rune('A' + i)), Kind: kind})
			}
		}
		v, w := newEvents(fields...), &Fields{}
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
		v, w := newEvents(event.Field{Name: "x", Kind: event.Numeric}, event.Field{Name: "x", Kind: event.Categorical}), &Fields{}
		v.usual.Usual = []uint16{1, 2}
		for n := range 200_000 {
			holds := []uint16{1}
			if n%every == 0 && n < 100_000 {
				holds[0] = 2
			}
			v.show(float64(n%7), holds, nil, w)
		}
		h := v.report(w)
		must.True(t, h.Raised <= 0, "text in one of %d: %+v", every, h.Changes)
	}
}

// TestDriftReportsBeforeAndAfter checks that an alarm has the mean loss before the change, over the events before it
// only, and the mean loss after the change, over the events since.
func TestDriftReportsBeforeAndAfter(t *testing.T) {
	var d detector
	event := uint64(0)
	for event < 2000 {
		event++
		d.take(0.25, 1, event)
	}
	for alarm := false; !alarm && event < 3000; {
		event++
		alarm = d.take(1.25, 1, event)
	}
	// The mean loss rises slowly after the change, so the loss of each event exceeds the mean by a little less than 1.
	r := d.drift()
	must.Require(t, r.Alarms == 1 && r.Event >= 2000+DriftAlarm && r.Event <= 2000+DriftAlarm*5/4, "no alarm, or not in time: %+v", r)
	must.True(t, math.Abs(r.Before-0.25) <= 1e-9 && math.Abs(r.After-1.25) <= 1e-9, "mean loss %v before and %v after the change, want 0.25 and 1.25", r.Before, r.After)
	must.True(t, r.Excess == 0, "the excess is %v after an alarm", r.Excess)
}

// TestBaselines compares both baselines with their definitions at each event. It starts at the second labeled event.
func TestBaselines(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var b Baselines
	var targets, weights []float64
	mean, last, total := 0.0, 0.0, 0.0
	for i := range 3000 {
		y, weight := 40+r.NormFloat64(), 1+float64(r.IntN(3))
		if i > 0 {
			sum, w := 0.0, 0.0
			for j := range targets {
				sum, w = sum+weights[j]*targets[j], w+weights[j]
			}
			mean += weight * math.Abs(y-sum/w)
			last += weight * math.Abs(y-targets[i-1])
			total += weight
		}
		targets, weights = append(targets, y), append(weights, weight)
		b.Tell(&LabeledEvent{Number: uint64(i) + 1, After: uint64(i), Regression: true, Target: y, Weight: weight})
	}
	report := b.Report(true)
	must.True(t, math.Abs(*report.MeanMAE-mean/total) <= 1e-9 && math.Abs(*report.LastMAE-last/total) <= 1e-9 && report.LastError == nil,
		"%v %v, want %v %v", *report.MeanMAE, *report.LastMAE, mean/total, last/total)
	var again Baselines
	c := &coder.Coder{}
	b.State(c)
	in := coder.Read(c.Out)
	again.State(in)
	must.True(t, in.Done() && reflect.DeepEqual(again, b), "%+v, saved %+v", again, b)
}

func take(w *Counts, t LabeledEvent) {
	w.Observe(&Event{LabeledEvent: t, Labeled: true})
}

// TestMeasuresBeginWithALabel checks that predictions made before the first label are not measured.
func TestMeasuresBeginWithALabel(t *testing.T) {
	w := &Counts{}
	w.Numbers = &Numbers{Loss: loss.Loss(loss.Linear{})}
	nan := math.NaN()
	for _, e := range []LabeledEvent{
		{Number: 1, After: 0, Target: 1e9, Value: 0},
		{Number: 2, After: 0, Target: 1e9 + 1, Value: 0}, // predicted before the first label
		{Number: 3, After: 1, Target: 1e9 + 1, Value: 1e9},
		{Number: 4, After: 3, Target: 1e9, Value: 1e9},
	} {
		e.Regression, e.Weight, e.Low, e.High = true, 1, nan, nan
		take(w, e)
	}
	n := w.Numbers
	must.True(t, n.Total.Weight == 2 && n.Total.MAE() == .5 && n.Window.Absolute == .999 && w.Labeled() == 4, "%+v", n.Total)
	r := w.Baselines.Report(true)
	must.True(t, *r.LastMAE == .5, "last label %v", *r.LastMAE)
}

// TestWorseThanBaseline checks that there is a warning as long as the error of a baseline is below the model's error by
// more than chance.
func TestWorseThanBaseline(t *testing.T) {
	for _, c := range []struct {
		name string
		told func(r *rand.Rand, i int, before float64) LabeledEvent // returns the i-th of 3,000 events
		want string                                                 // expected kinds of warnings
	}{
		{"a walk", func(r *rand.Rand, _ int, before float64) LabeledEvent {
			y := before + r.NormFloat64()
			return LabeledEvent{Regression: true, Target: y, Value: y + 3*r.NormFloat64()}
		}, "worse-than-last"},
		{"noise", func(r *rand.Rand, _ int, _ float64) LabeledEvent {
			return LabeledEvent{Regression: true, Target: r.NormFloat64(), Value: .03 * r.NormFloat64()}
		}, ""},
		{"worse than all", func(r *rand.Rand, _ int, _ float64) LabeledEvent {
			return LabeledEvent{Regression: true, Target: r.NormFloat64(), Value: 9 * r.NormFloat64()}
		}, "worse-than-prior worse-than-last"},
		{"one bad answer long ago", func(r *rand.Rand, i int, _ float64) LabeledEvent {
			y, v := r.NormFloat64(), 0.
			if i == 50 {
				v = 1e30
			}
			return LabeledEvent{Regression: true, Target: y, Value: v}
		}, ""},
		{"classes in runs", func(r *rand.Rand, i int, _ float64) LabeledEvent {
			return LabeledEvent{Label: i / 50 % 2, Predicted: r.IntN(2)}
		}, "worse-than-last"},
		{"classes of chance", func(r *rand.Rand, _ int, _ float64) LabeledEvent {
			return LabeledEvent{Label: r.IntN(2), Predicted: r.IntN(2)}
		}, ""},
		{"always right", func(r *rand.Rand, _ int, _ float64) LabeledEvent {
			k := r.IntN(2)
			return LabeledEvent{Label: k, Predicted: k}
		}, ""},
	} {
		r := rand.New(rand.NewPCG(3, 4))
		w := &Counts{}
		before := 0.0
		for i := range 3000 {
			e := c.told(r, i, before)
			before = e.Target
			e.Number, e.After, e.Weight = uint64(i)+1, uint64(i), 1
			if e.Regression {
				if w.Numbers == nil {
					w.Numbers = &Numbers{Loss: loss.Loss(loss.Linear{})}
				}
			}
			take(w, e)
			must.True(t, i != 90 || len(w.warnings(Stream{Events: 90, Final: true})) <= 0, "%s: a warning after 90 events", c.name)
		}
		found := w.warnings(Stream{Events: 3000, Classes: []string{"a", "b"}})
		kinds := must.Map(found, func(x Warning) string { return x.Kind })
		must.Equal(t, strings.Join(kinds, " "), c.want, c.name)
	}
}

// TestMajorityClass compares the error of the most frequent class with its definition: the first of the classes with the
// largest weight so far. A restart at every event must change nothing.
func TestMajorityClass(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 2))
	var b Baselines
	weights := make([]float64, 4)
	wrong, total := 0.0, 0.0
	for i := range 500 {
		label, weight := r.IntN(4), float64(1+r.IntN(2))
		most := 0
		for class, w := range weights {
			if w > weights[most] {
				most = class
			}
		}
		if i > 0 {
			if total += weight; label != most {
				wrong += weight
			}
		}
		b.Tell(&LabeledEvent{Number: uint64(i) + 1, After: uint64(i), Label: label, Weight: weight})
		weights[label] += weight
		var again Baselines
		c := &coder.Coder{}
		b.State(c)
		again.State(coder.Read(c.Out))
		b = again
	}
	got := *b.Report(false).MajorityError
	must.True(t, math.Abs(got-100*wrong/total) <= 1e-9, "the error is %v, want %v", got, 100*wrong/total)
}
