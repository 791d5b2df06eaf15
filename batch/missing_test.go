package batch

import (
	"context"
	"errors"
	"fmt"
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
	p := Presence{Sparse: true}
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

// TestKeptExamples checks that Presence keeps a bounded number of examples, evenly spread over a large training set, and
// that they are copies.
func TestKeptExamples(t *testing.T) {
	s, events := correlated(5*presenceSample+1, 0.1, 0, 5)
	var p Presence
	for i := range events {
		e := events[i]
		p.Add(&e)
		clear(e.Field)
	}
	must.True(t, len(p.kept) >= presenceSample && len(p.kept) <= 2*presenceSample, "%d of %d examples are kept", len(p.kept), len(events))
	for i, k := range p.kept {
		must.Require(t, k.row == i*p.every && !slices.Contains(k.Field, 0) && len(k.Field)+len(k.Missing) == 5, "example %d is that of row %d: %+v", i, k.row, k)
	}
	_, err := p.Observed(s)
	must.True(t, err == nil && p.rows == len(events), "%d examples are counted: %v", p.rows, err)
	// Without fields, only examples of a sparse format whose columns can be missing are kept.
	for _, sparse := range []bool{false, true} {
		p := Presence{Sparse: sparse}
		p.Add(&event.Example{Features: event.Vec{Index: []uint32{1}, Value: []float64{2}}})
		must.True(t, len(p.kept) == must.Either(sparse, 1, 0), "sparse %v: %d examples are kept", sparse, len(p.kept))
	}
	must.True(t, DefaultConfig().SupportsSplines(), "logistic regression does not support splines")
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
		got := p.Missing(m, b.Data(s), policy)
		must.True(t, got == nil, "%s: %+v", policy, got)
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
	}{{"none", 3, model.MissingImpute}, {"dropout:0.5", 3, model.MissingRescale}} {
		m, _, _ := trainLacking(t, s, events, model.StandardizeAuto, model.MissingAuto, c.noise)
		must.True(t, m.Missing.ColumnsCanBeMissing && len(m.Missing.Columns) == 6 && m.Missing.Policies[c.bin] == model.OnePolicy(c.want), "noise %s: %+v", c.noise, m.Missing)
		x := m.Standardized(&events[0], event.Vec{})
		must.True(t, x.Len() == events[0].Features.Len(), "%d features of %d", x.Len(), events[0].Features.Len())
		mean := m.Stats(m.Rows.Row(0))[model.StatCenter]
		must.True(t, math.Abs(mean-50.5) <= 0.3, "the center is %v", mean)
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
		got := noise.(loss.GroupDropout).Rate(name)
		must.True(t, math.Abs(got-want) <= 1e-4 && want >= 0.2 && (name == "d") == (want > 0.5), "the rate of %s is %v, and it is missing from %v", name, got, want)
	}
	must.Fails(t, must.Err(p.Observed(event.NewSchema(8, []string{"no", "yes"}, 2))), "rates of examples without fields")
}

// correlated returns events of five numbers. The last three numbers are nearly functions of the first two. A fraction
// null of the values is null, and a fraction outlier of the values is an outlier. The last number determines the class.
func correlated(n int, null, outlier float64, seed uint64) (*event.Schema, []event.Example) {
	s := eventtest.Schema(5, "", "no", "yes")
	r := rand.New(rand.NewPCG(seed, 2))
	var out []event.Example
	for range n {
		a, b := 3+2*r.NormFloat64(), r.NormFloat64()
		x := []float64{a, b, a + b + 0.3*r.NormFloat64(), a - b + 0.3*r.NormFloat64(), 2*b - a + 0.3*r.NormFloat64()}
		e := event.Example{Weight: 1}
		e.Label = must.Either(x[4]+3+0.5*r.NormFloat64() > 0, 1, 0)
		for i, v := range x {
			switch u := r.Float64(); {
			case u < null:
				e.Missing = append(e.Missing, uint16(i+1))
				continue
			case u < null+outlier:
				v = 1e9
			}
			eventtest.Put(&e, uint32(10*i), v, uint16(i+1))
		}
		out = append(out, e)
	}
	return s, out
}

// TestCovarianceOfRowsWithMissingFields removes values so that no pair of columns is complete, and adds outliers. It
// checks that the covariance equals the covariance of the original rows, within statistical error.
func TestCovarianceOfRowsWithMissingFields(t *testing.T) {
	s, events := correlated(4000, 0, 0, 1)
	m, d, p := trainLacking(t, s, events, model.StandardizeAuto, model.MissingAuto, "none")
	whole := m.Covariance
	n := len(whole.Columns)
	must.Require(t, n == 5 && slices.Equal(whole.Fields, []uint16{1, 2, 3, 4, 5}), "columns %v of fields %v", whole.Columns, whole.Fields)
	// want is a slow reference: sums over pairs of values.
	for i := range n {
		for j := range n {
			sum, a, b := 0.0, 0.0, 0.0
			for row := range d.Rows() {
				x, y := d.Row(row).At(i), d.Row(row).At(j)
				sum, a, b = sum+x*y, a+x, b+y
			}
			rows := float64(d.Rows())
			want := sum/rows - a/rows*b/rows
			must.True(t, math.Abs(whole.Matrix[i*n+j]-want) <= 1e-9, "covariance of columns %d and %d: %v, want %v", i, j, whole.Matrix[i*n+j], want)
		}
	}
	for _, c := range []struct{ null, wild float64 }{{0.3, 0}, {0, 0.003}, {0.3, 0.003}} {
		s, events := correlated(4000, c.null, c.wild, 1)
		m, d, p := trainLacking(t, s, events, model.StandardizeNone, model.MissingNone, "none")
		got := m.Covariance
		if c.wild > 0 {
			got = p.Covariance(m, d, 5)
		}
		for i := range n {
			for j := range n {
				// The matrix of got is for raw values, the matrix of whole for standardized values.
				scale := math.Sqrt(got.Matrix[i*n+i] * got.Matrix[j*n+j])
				a, b := got.Matrix[i*n+j]/scale, whole.Matrix[i*n+j]
				must.True(t, math.Abs(a-b) <= 0.04, "%+v: correlation of columns %d and %d is %v, want about %v", c, i, j, a, b)
			}
		}
	}
	// A second call gives the same result. A smaller limit gives the covariance of the first columns.
	must.True(t, slices.Equal(p.Covariance(m, d, 256).Matrix, whole.Matrix), "a second time it is another")
	few := p.Covariance(m, d, 3)
	must.True(t, slices.Equal(few.Columns, whole.Columns[:3]), "of three columns: %v", few.Columns)
	for _, none := range []int{0, 1} {
		c := p.Covariance(m, d, none)
		must.True(t, c == nil, "of %d columns: %v", none, c)
	}
}

// TestImputationIsChosen checks that the missing policy becomes "impute" if numbers depend on each other, for named
// fields and for declared columns. On new events, predictions with that policy must have the lowest error.
func TestImputationIsChosen(t *testing.T) {
	for _, sparse := range []bool{false, true} {
		s, events := correlated(2000, 0, 0, 3)
		_, fresh := correlated(2000, 0, 0, 4)
		if sparse {
			s = event.NewSchema(8, []string{"no", "yes"}, 2)
			for _, list := range [][]event.Example{events, fresh} {
				for i := range list {
					list[i].Field = nil
				}
			}
		}
		m, _, _ := trainLacking(t, s, events, model.StandardizeAuto, model.MissingAuto, "none")
		for b, fractions := range m.Missing.Policies {
			policy := fractions.Largest()
			// of five columns one missing is already 20 %: no missing fraction is below 10 %
			must.True(t, policy == model.MissingImpute || b < 1 || b >= 4, "sparse %v: rules %v", sparse, m.Missing.Policies)
		}
		wrong := map[model.MissingPolicy]int{}
		for i := range fresh {
			dead := []bool{i%2 == 0, i%3 == 0, false, false, true}
			var left event.Example
			model.LossesOf(m, 0).Lose(model.LossDeclared, &fresh[i], 0, fresh[i].Features.Index, dead, &left)
			for _, policy := range []model.MissingPolicy{model.MissingAuto, model.MissingNone, model.MissingRescale} {
				as := m.WithMissing(m.Missing.Forced(policy))
				if as.Predict(as.Score(&left, make([]float64, 1))) != fresh[i].Label {
					wrong[policy]++
				}
			}
		}
		most := wrong[model.MissingAuto] * 3 / 2
		must.True(t, wrong[model.MissingNone] >= most && wrong[model.MissingRescale] >= most, "sparse %v: wrong by rule %v of %d", sparse, wrong, len(fresh))
	}
}

// numberEvents returns events with five correlated fields that determine the targets.
func numberEvents(n int, target loss.Target, seed uint64) (*event.Schema, []event.Example) {
	s := event.NewSchema(8, nil, 2)
	s.Target = target
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		s.AddField(event.Field{Name: name, Kind: event.Numeric})
	}
	r := rand.New(rand.NewPCG(seed, 6))
	out := make([]event.Example, n)
	for i := range out {
		a, b := r.NormFloat64(), r.NormFloat64()
		x := []float64{a + 0.5*r.NormFloat64(), 3 + 2*a + b, b + 0.5*r.NormFloat64(), 100 * (a - b + 0.5*r.NormFloat64()), r.NormFloat64()}
		f := x[0] - x[1]/2 + x[2] + x[3]/200 + x[4]
		e := event.Example{Target: 1000 + 50*(f+0.4*r.NormFloat64()), Weight: 1, Field: []uint16{1, 2, 3, 4, 5},
			Features: event.Vec{Index: []uint32{1, 2, 3, 4, 5}, Value: x}}
		if target == loss.Count {
			e.Target = 0
			for at := r.ExpFloat64(); at < 20*math.Exp(f/4); at += r.ExpFloat64() {
				e.Target++
			}
		}
		out[i] = e
	}
	return s, out
}

// TestExactIntervalCoversWhatIsMissing checks that the interval of an exact model contains 90 % of the targets for any
// number of missing fields. It trains on events with and without missing fields. If no training event has missing
// fields, the missing policy must be "impute".
func TestExactIntervalCoversWhatIsMissing(t *testing.T) {
	longtest.NotRaced(t)
	for _, lossName := range []string{"linear", "absolute", "poisson"} {
		for _, lacked := range []float64{0, 0.3} {
			for _, policy := range []model.MissingPolicy{model.MissingAuto, model.MissingNone} {
				s, events := numberEvents(4000, loss.LabelsOf(lossName), 5)
				r := rand.New(rand.NewPCG(1, 8))
				blank := func(e *event.Example, fraction float64) *event.Example {
					return kill(e, func(uint16) bool { return r.Float64() < fraction })
				}
				var b Builder
				var p Presence
				fit := Standardizer{Mode: model.StandardizeAll}
				for i := range events {
					e := blank(&events[i], lacked)
					e.Target = events[i].Target
					p.Add(e)
					fit.Observe(e, s)
					must.Do(t, b.Add(e))
				}
				d, scaler := must.Get2(fit.Fit(b.Data(s)))(t)
				c := DefaultConfig()
				c.Loss, c.L2 = lossName, 1
				f := must.Get(Train(t.Context(), d, c))(t)
				sums := must.Get(f.MeasureNumbers(d))(t)
				within := sums.Within / sums.Asked
				must.True(t, sums.Weight == 4000 && within > 0.86 && within < 0.94 && f.Model.Residual != nil, "%s: %.3f of %v training targets lie within their interval", lossName, within, sums.Weight)
				m := f.Model.WithScaler(scaler)
				m = m.WithCovariance(p.Covariance(m, d, 256))
				m.Missing = p.Missing(m, d, policy)
				m.Residual = p.Residual(m, d)
				got := m.Missing.Policies[2].Largest()
				must.True(t, policy != model.MissingAuto || lacked != 0 || got == model.MissingImpute, "%s: events that lack three tenths are answered by %s", lossName, got)
				_, fresh := numberEvents(3000, s.Target, 6)
				for _, fraction := range []float64{0, 0.1, 0.3} {
					t.Run(fmt.Sprintf("%s/%s/trained with %v/%v", lossName, policy, lacked, fraction), func(t *testing.T) {
						in := 0.0
						for i := range fresh {
							e := blank(&fresh[i], fraction)
							value := m.Value(m.Score(e, make([]float64, 1))[0])
							low, high := m.Interval(value, model.ScoreVariance(m, e))
							if y := fresh[i].Target; low <= y && y <= high {
								in++
							}
						}
						in /= float64(len(fresh))
						must.True(t, in > 0.86 && in < 0.93, "%.3f of the targets lie within their interval", in)
					})
				}
			}
		}
	}
}

// goneModel returns a model of the numbers a and b in the group pair, the number c, and the product a^c. It also
// returns events that the model predicts correctly from a alone.
func goneModel() (*model.Linear, []event.Example) {
	s := event.NewSchema(6, []string{"no", "yes"}, 2)
	s.Crosses = [][2]string{{"a", "c"}}
	for i, name := range []string{"a", "b", "c", "a^c"} {
		s.AddField(event.Field{Name: name, Kind: []event.Kind{event.Numeric, event.Numeric, event.Numeric, event.Cross}[i]})
	}
	s.Fields[1].Group, s.Fields[2].Group = "pair", "pair"
	m := model.NewLinear(s, "logistic", "none", [][]float64{{0, 4, 1, 0.25, 0.5}}, []float64{0})
	m.Missing = model.NewMissing(model.DefaultMissingPolicies(), nil, nil, nil)
	r := rand.New(rand.NewPCG(1, 1))
	var events []event.Example
	for i := range 300 {
		label := r.IntN(2)
		a := float64(2*label-1) * (1 + r.Float64())
		b, c := r.NormFloat64(), r.NormFloat64()
		events = append(events, event.Example{Features: event.Vec{Index: []uint32{1, 2, 3, 4}, Value: []float64{a, b, c, a * c / 100}}, Field: []uint16{1, 2, 3, 4}, Label: label, Weight: 1, Time: int64(1000 + i)})
	}
	return m, events
}

// TestWithoutPart checks the errors without a part. The test removes the part and its products from all events, entry
// by entry. WithoutPart must report the model's error on these events. The forecast at deleted fraction 0 must be this
// error too.
func TestWithoutPart(t *testing.T) {
	m, events := goneModel()
	for _, c := range []struct {
		kind, name string
		dead       []uint16 // fields that are missing without the part
		null       []uint16
	}{{"field", "a", []uint16{1, 4}, []uint16{1}}, {"field", "c", []uint16{3, 4}, []uint16{3}}, {"group", "pair", []uint16{1, 2, 4}, []uint16{1, 2}}} {
		g := must.Get(WithoutPart(m, events, c.kind, c.name, []float64{0, 0.5}))(t)
		with, without, perSpan := 0.0, 0.0, 0.0
		for i := range events {
			e := &events[i]
			left := event.Example{Missing: c.null, Label: e.Label, Weight: 1}
			for j, id := range e.Field {
				if !slices.Contains(c.dead, id) {
					eventtest.Put(&left, e.Features.Index[j], e.Features.Value[j], id)
				}
			}
			if m.Predict(m.Score(e, make([]float64, 2))) != e.Label {
				with += 100. / 300
			}
			if m.Predict(m.Score(&left, make([]float64, 2))) != e.Label {
				without += 100. / 300
			}
		}
		must.True(t, math.Abs(g.With-with) <= 1e-9 && math.Abs(g.Without-without) <= 1e-9 && g.WithPart == 300 && g.Events == 300 && g.Since == 1000,
			"%s %s: %+v, want %v and %v", c.kind, c.name, g, with, without)
		n := 0
		for _, s := range g.Recent {
			n += s.Events
			perSpan += float64(s.Events) * s.Without / 300
		}
		must.True(t, n == 300 && len(g.Recent) == ablationSpans && math.Abs(perSpan-without) <= 1e-9 && g.Recent[ablationSpans-1].Until == 1299, "%s %s: spans %+v", c.kind, c.name, g.Recent)
		f := *g.ForecastWithout[0]
		must.True(t, math.Abs(f-without) <= 1e-9 && f <= *g.ForecastWith[0] == (c.name == "c"), "%s %s: forecasts %v and %v, errors %v and %v", c.kind, c.name, *g.ForecastWith[0], f, with, without)
		must.True(t, *g.ForecastWith[1] > *g.ForecastWith[0], "the forecast does not rise: %v, %v", *g.ForecastWith[0], *g.ForecastWith[1])
	}
	// If features have no fields, as in the svmlight format, only the feature itself is deleted.
	for i := range events {
		events[i].Field = nil
	}
	g, err := WithoutPart(m, events, "feature", m.Namer()(1), []float64{0})
	must.True(t, err == nil && g.With <= 10 && g.Without >= 30, "feature: %+v, %v", g, err)
	for _, c := range [][2]string{{"field", "z"}, {"field", ""}, {"group", "a"}, {"feature", "nothing"}} {
		var unknown *UnknownPartError
		_, err := WithoutPart(m, events, c[0], c[1], []float64{0})
		must.True(t, errors.As(err, &unknown), "%q: %v", c, err)
	}
	must.Fails(t, must.Err(WithoutPart(m, events, "sensor", "a", nil)), "another kind is taken")
}
