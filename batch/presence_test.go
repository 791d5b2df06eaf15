package batch

import (
	"math/rand/v2"
	"slices"
	"testing"

	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/model"
	"blankout/internal/must"
)

// TestStandardizerPresence checks which numbers get a presence column in the exact solution. A number that many
// examples omit must have a presence column, as in a Learner of the same events. A number that is null or seldom
// omitted must have none. A number with a spline may have one too.
func TestStandardizerPresence(t *testing.T) {
	schema := event.NewSchema(8, []string{"no", "yes"}, 2)
	for _, name := range []string{"always", "seldom", "null", "mostly"} {
		schema.AddField(event.Field{Name: name, Kind: event.Numeric})
	}
	r := rand.New(rand.NewPCG(3, 4))
	fitOf := func(fit Standardizer, mode model.Standardize) (*model.Splines, float64) {
		fit.Mode = mode
		var b Builder
		for i := range 1000 {
			e := event.Example{Label: i % 2, Weight: 1}
			put := func(field uint16, x float64) {
				eventtest.Put(&e, 10*uint32(field), x, field)
			}
			put(1, r.NormFloat64())
			if r.Float64() < 0.2+0.8*float64(e.Label) {
				put(2, 300+r.NormFloat64())
			}
			if i%5 < 2 {
				e.Missing = append(e.Missing, 3)
			} else {
				put(3, r.NormFloat64())
			}
			if i%20 != 0 {
				put(4, r.NormFloat64())
			}
			fit.Observe(&e, schema)
			must.Do(t, b.Add(&e))
		}
		d, m := must.Get2(fit.Fit(b.Data(schema)))(t)
		c := DefaultConfig()
		c.Noise = "dropout:0.1"
		trained, err := Train(t.Context(), d, c)
		if err != nil || !trained.Converged {
			t.Fatal(err)
		}
		return m.Scaler.Splines, trained.TrainError(d)
	}
	splines, with := fitOf(Standardizer{Presence: true}, model.StandardizeAuto)
	if splines == nil || !slices.Equal(splines.Columns, []uint32{20}) || !slices.Equal(splines.Knots[0], model.Present()) {
		t.Fatalf("%+v, want the presence of column 20", splines)
	}
	splines, without := fitOf(Standardizer{}, model.StandardizeAuto)
	if splines != nil {
		t.Errorf("not asked for: %+v", splines)
	}
	if with > 0.13 || without < 0.3 { // the Bayes error is 0.1
		t.Errorf("training errors %.3f, without %.3f", with, without)
	}
	if splines, _ = fitOf(Standardizer{Presence: true}, model.StandardizeScale); splines != nil {
		t.Errorf("nothing is centered: %+v", splines)
	}
}
