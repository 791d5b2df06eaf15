package batch

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/longtest"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/internal/must"
)

// lackingEvents returns events of two classes with eight numbers, a boolean and a field with three string values. The
// fraction null of the values is null, and the fraction gone is omitted.
func lackingEvents(n int, null, gone float64, seed uint64) (*event.Schema, []event.Example) {
	s := eventtest.Schema(8, "", "no", "yes")
	s.AddField(event.Field{Name: "i", Kind: event.Boolean})
	s.AddField(event.Field{Name: "j", Kind: event.Categorical})
	r := rand.New(rand.NewPCG(seed, 2))
	var out []event.Example
	for range n {
		e := event.Example{Weight: 1, Label: r.IntN(2)}
		for id := uint16(1); id <= 10; id++ {
			column, x := uint32(10*id), 1.0
			switch {
			case id <= 8:
				x = 5 + r.NormFloat64() + 0.6*float64(2*e.Label-1)
			case id == 9:
				column += uint32(min(r.IntN(3), 1) ^ e.Label)
			default:
				column += uint32(max(r.IntN(3), e.Label))
			}
			switch u := r.Float64(); {
			case u < null:
				e.Missing = append(e.Missing, id)
			case u < null+gone:
			default:
				eventtest.Put(&e, column, x, id)
			}
		}
		out = append(out, e)
	}
	return s, out
}

// trainLacking trains on events through a Scaler and returns the model with the given missing policy.
func trainLacking(t *testing.T, s *event.Schema, events []event.Example, mode model.Standardize, policy model.MissingPolicy, noise string) (*model.Linear, *Data, *Presence) {
	t.Helper()
	var b Builder
	var p Presence
	fit := Standardizer{Mode: mode}
	for i := range events {
		p.Add(&events[i])
		fit.Observe(&events[i], s)
		must.Do(t, b.Add(&events[i]))
	}
	d, scaler := must.Get2(fit.Fit(b.Data(s)))(t)
	c := DefaultConfig()
	c.Noise = noise
	f := must.Get(Train(context.Background(), d, c))(t)
	m := f.Model.WithScaler(scaler)
	m = m.WithCovariance(p.Covariance(m, d, 256))
	m.Missing = p.Missing(m, d, policy)
	return m, d, &p
}

// kill returns e with the fields that dead selects set to null.
func kill(e *event.Example, dead func(id uint16) bool) *event.Example {
	out := &event.Example{Label: e.Label, Weight: e.Weight, Missing: slices.Clone(e.Missing), Field: []uint16{}}
	for i, id := range e.Field {
		if dead(id) {
			out.Missing = append(out.Missing, id)
			continue
		}
		out.Field = append(out.Field, id)
		eventtest.Put(out, e.Features.Index[i], e.Features.Value[i])
	}
	slices.Sort(out.Missing)
	return out
}

// TestMissingIsMeasuredAsPredicted checks that the losses by which policies are compared equal the losses of the
// model's own predictions. The predictions are for the same events with the same deleted fields. The cases cover every
// way in which the Scaler treats omitted fields.
func TestMissingIsMeasuredAsPredicted(t *testing.T) {
	for _, mode := range []model.Standardize{model.StandardizeAuto, model.StandardizeAll} {
		s, events := lackingEvents(400, 0.1, 0.05, 1)
		m, d, p := trainLacking(t, s, events, mode, model.MissingAuto, "none")
		rule := *m.Missing
		for _, r := range []model.MissingPolicy{model.MissingNone, model.MissingRescale, model.MissingImpute, model.MissingAuto} {
			m.Missing = rule.Forced(r)
			k := newMasker(p, m, d, m.Missing)
			scaled, fallback := 0, 0 // numbers of events whose missing fields are not numeric
			for i := range events {
				lack := k.delete(i, mask{0.1 * float64(i%10), i})
				scale := m.Missing.Scale(lack)
				if scale != 1 {
					scaled++
				}
				forecast := k.loss(i, scale)
				if filled := m.Handling(&k.left).Policy() == model.MissingImpute; filled {
					forecast = k.lossOf(i, m.ScoreMissing(k.x, &k.left, k.scores))
				} else if r == model.MissingImpute && lack.Null > 0 {
					fallback++
				}
				e := kill(&events[i], func(id uint16) bool { return k.dead[id] })
				p := m.Probabilities(m.Score(e, make([]float64, 1)), make([]float64, 2))
				if answered := -math.Log(max(p[e.Label], 1e-15)); math.Abs(forecast-answered) > 1e-12*max(1, answered) {
					t.Fatalf("%s, %s, event %d: measured %v, answered %v", mode, r, i, forecast, answered)
				}
			}
			if r == model.MissingRescale && scaled < 200 {
				t.Errorf("only %d events were rescaled", scaled)
			}
			if fallback > 100 {
				t.Errorf("%d events were not filled in", fallback)
			}
		}
	}
}

// TestMissingPolicyOfExactTraining checks that the chosen missing policy predicts new events better than the other
// policies, with and without nulls in the training events.
func TestMissingPolicyOfExactTraining(t *testing.T) {
	longtest.NotRaced(t)
	for _, c := range []struct {
		noise      string
		null, gone float64 // fractions of null and omitted values in training
		absent     bool    // whether new events omit fields instead of setting them to null
	}{{"none", 0, 0, false}, {"none", 0, 0, true}, {"dropout:0.5", 0, 0, false}, {"none", 0.5, 0, false}, {"none", 0, 0.4, true}} {
		s, events := lackingEvents(3000, c.null, c.gone, 3)
		m, _, _ := trainLacking(t, s, events, model.StandardizeAuto, model.MissingAuto, c.noise)
		rule := m.Missing
		if len(rule.Usual) != 10 && c.null < 0.5 {
			t.Errorf("%+v: usual fields %v", c, rule.Usual)
		}
		_, fresh := lackingEvents(6000, 0, 0, 4)
		loss := map[model.MissingPolicy]float64{}
		r := rand.New(rand.NewPCG(5, 6))
		for i := range fresh {
			e := kill(&fresh[i], func(uint16) bool { return r.Float64() < 0.5 })
			if c.absent {
				e.Missing = nil
			}
			for _, way := range []model.MissingPolicy{model.MissingAuto, model.MissingNone, model.MissingRescale, model.MissingImpute} {
				m.Missing = rule.Forced(way)
				p := m.Probabilities(m.Score(e, make([]float64, 1)), make([]float64, 2))
				loss[way] -= math.Log(max(p[e.Label], 1e-15)) / float64(len(fresh))
			}
		}
		t.Logf("%+v: %v, log-loss %v", c, *rule, loss)
		if best := min(loss[model.MissingNone], loss[model.MissingRescale], loss[model.MissingImpute]); !(loss[model.MissingAuto] < best+0.002) {
			t.Errorf("%+v: log-loss by rule %v with %+v", c, loss, rule)
		}
	}
}

// TestNoMissingPolicyWithoutNames checks that a model of events without named fields has no missing policy.
func TestNoMissingPolicyWithoutNames(t *testing.T) {
	s := event.NewSchema(8, []string{"0", "1"}, 2)
	e := event.Example{Weight: 1, Features: event.Vec{Index: []uint32{1}, Value: []float64{1}}}
	var b Builder
	var p Presence
	p.Add(&e)
	must.Do(t, b.Add(&e))
	m := model.NewLinear(s, "logistic", "none", [][]float64{{0, 1}}, []float64{0})
	for _, policy := range []model.MissingPolicy{model.MissingAuto, model.MissingRescale} {
		if got := p.Missing(m, b.Data(s), policy); got != nil {
			t.Errorf("%s: %+v", policy, got)
		}
	}
}

// TestMissingPolicyOfColumns checks a sparse format whose Schema declares that columns can be missing. The missing
// policy must then apply to columns. Missing columns must be excluded from the Scaler's statistics and must not be
// imputed.
func TestMissingPolicyOfColumns(t *testing.T) {
	s := event.NewSchema(8, []string{"0", "1"}, 2)
	s.Absent = event.AbsentMissing
	r := rand.New(rand.NewPCG(1, 2))
	var events []event.Example
	for i := range 600 {
		e := event.Example{Label: i % 2, Weight: 1}
		for c := range uint32(6) {
			if r.Float64() < 0.95 {
				eventtest.Put(&e, c, 50+float64(e.Label)+r.NormFloat64())
			}
		}
		events = append(events, e)
	}
	for _, c := range []struct {
		noise string
		bin   int // range in which most of the features are missing
		want  model.MissingPolicy
	}{{"none", 4, model.MissingImpute}, {"dropout:0.5", 3, model.MissingRescale}} {
		m, _, _ := trainLacking(t, s, events, model.StandardizeAuto, model.MissingAuto, c.noise)
		if !m.Missing.ColumnsCanBeMissing || len(m.Missing.Columns) != 6 || m.Missing.Policies[c.bin] != model.OnePolicy(c.want) {
			t.Errorf("noise %s: %+v", c.noise, m.Missing)
		}
		if x := m.Standardized(&events[0], event.Vec{}); x.Len() != events[0].Features.Len() {
			t.Errorf("%d features of %d", x.Len(), events[0].Features.Len())
		}
		if mean := m.Stats(m.Rows.Row(0))[model.StatCenter]; math.Abs(mean-50.5) > 0.3 {
			t.Errorf("the center is %v", mean)
		}
	}
}

// TestObserved checks the rates of the observed noise. Each rate must equal the fraction of examples in which the field
// is null or omitted. Training with observed noise must equal training with these rates.
func TestObserved(t *testing.T) {
	s, events := lackingEvents(2000, 0.2, 0.1, 3)
	for i := range events {
		e := &events[i]
		at := slices.Index(e.Field, 4)
		if at < 0 || i%2 == 0 { // remove half of the present values of field 4
			continue
		}
		e.Features.Index, e.Features.Value, e.Field = slices.Delete(e.Features.Index, at, at+1), slices.Delete(e.Features.Value, at, at+1), slices.Delete(e.Field, at, at+1)
		e.Missing = append(e.Missing, 4)
		slices.Sort(e.Missing)
	}
	var p Presence
	lost := map[string]float64{}
	for i := range events {
		p.Add(&events[i])
		for id := uint16(1); id <= 10; id++ {
			if !slices.Contains(events[i].Field, id) {
				lost[s.Fields[id].Name] += 1.0 / 2000
			}
		}
	}
	noise := must.Get(p.Observed(s))(t)
	for name, want := range lost {
		if got := noise.(loss.GroupDropout).Rate(name); math.Abs(got-want) > 1e-4 || want < 0.2 || (name == "d") != (want > 0.5) {
			t.Errorf("the rate of %s is %v, and it is missing from %v", name, got, want)
		}
	}
	if _, err := p.Observed(event.NewSchema(8, []string{"no", "yes"}, 2)); err == nil {
		t.Error("rates of examples without fields")
	}
}
