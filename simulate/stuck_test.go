package simulate

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout/internal/event"
	"blankout/internal/model"
	"blankout/internal/must"
	"blankout/online"
)

// TestStuckFoundAndNot checks a nightmare that holds a field at a value. It must have an additional curve, of a subject
// that has detected the stuck field. The error of this subject must be lower, as if the field were null. Other
// nightmares must have only the configured curves.
func TestStuckFoundAndNot(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	schema := event.NewSchema(8, []string{"no", "yes"}, 2)
	for _, name := range []string{"x", "y"} {
		schema.AddField(event.Field{Name: name, Kind: event.Numeric, Column: uint32(len(schema.Fields))})
	}
	var examples []event.Example
	for range 4000 {
		z := r.NormFloat64()
		e := event.Example{Weight: 1, Field: []uint16{1, 2}, Features: event.Vec{Index: []uint32{1, 2}, Value: []float64{10 + z + 0.2*r.NormFloat64(), z + r.NormFloat64()}}}
		if z > 0 {
			e.Label = 1
		}
		examples = append(examples, e)
	}
	c := online.DefaultConfig()
	l := must.Get(online.New(c, schema))(t)
	for i := range examples[:2000] {
		l.Learn(&examples[i], nil)
	}
	rest := examples[2000:]
	subjects := []*Subject{
		{Name: "model", Examples: rest, Schema: schema, Model: l.Snapshot().Model()},
	}
	var families []Family
	for _, name := range []string{"stuck:x:13@50%-100%", "group:x@50%-100%", "stuck:x:13,14@50%-100%"} {
		f := must.Get(ParseFamily(name))(t)
		families = append(families, f)
	}
	replay := Replay{Families: families, Treatments: []Treatment{{Loss: model.LossDeclared}, {Loss: model.LossDeclared, Rescale: true}}, Repeat: 1}
	result := must.Get(replay.Run(context.Background(), subjects))(t)
	errors := map[string]float64{}
	var names []string
	for _, spline := range result.Curves {
		name := spline.Nightmare + " " + spline.Subject + " " + spline.Treatment.String()
		names, errors[name] = append(names, name), spline.Points[0].Error
	}
	want := []string{
		"stuck:x:13@50%-100% model not found", "stuck:x:13@50%-100% model found",
		"group:x@50%-100% model declared", "group:x@50%-100% model declared, rescaled",
		"stuck:x:13,14@50%-100% model not found", "stuck:x:13,14@50%-100% model found",
	}
	must.Require(t, slices.Equal(names, want), "%q", names)
	t.Log(errors)
	found := errors[want[1]]
	must.True(t, found == errors[want[2]] && found <= errors[want[0]]-10, "a model: %v", errors)
}
