package batch

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/model"
	"blankout/internal/must"
)

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
		if math.Abs(g.With-with) > 1e-9 || math.Abs(g.Without-without) > 1e-9 || g.WithPart != 300 || g.Events != 300 || g.Since != 1000 {
			t.Errorf("%s %s: %+v, want %v and %v", c.kind, c.name, g, with, without)
		}
		n := 0
		for _, s := range g.Recent {
			n += s.Events
			perSpan += float64(s.Events) * s.Without / 300
		}
		if n != 300 || len(g.Recent) != ablationSpans || math.Abs(perSpan-without) > 1e-9 || g.Recent[ablationSpans-1].Until != 1299 {
			t.Errorf("%s %s: spans %+v", c.kind, c.name, g.Recent)
		}
		if f := *g.ForecastWithout[0]; math.Abs(f-without) > 1e-9 || f <= *g.ForecastWith[0] != (c.name == "c") {
			t.Errorf("%s %s: forecasts %v and %v, errors %v and %v", c.kind, c.name, *g.ForecastWith[0], f, with, without)
		}
		if *g.ForecastWith[1] <= *g.ForecastWith[0] {
			t.Errorf("the forecast does not rise: %v, %v", *g.ForecastWith[0], *g.ForecastWith[1])
		}
	}
	// If features have no fields, as in the svmlight format, only the feature itself is deleted.
	for i := range events {
		events[i].Field = nil
	}
	g, err := WithoutPart(m, events, "feature", m.Namer()(1), []float64{0})
	if err != nil || g.With > 10 || g.Without < 30 {
		t.Errorf("feature: %+v, %v", g, err)
	}
	for _, c := range [][2]string{{"field", "z"}, {"field", ""}, {"group", "a"}, {"feature", "nothing"}} {
		var unknown *UnknownPartError
		if _, err := WithoutPart(m, events, c[0], c[1], []float64{0}); !errors.As(err, &unknown) {
			t.Errorf("%q: %v", c, err)
		}
	}
	if _, err := WithoutPart(m, events, "sensor", "a", nil); err == nil {
		t.Error("another kind is taken")
	}
}
