package simulate

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout/batch"
	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/internal/must"
	"blankout/online"
)

// stream returns examples with informative and uninformative features, and the model from which their labels were
// computed.
func stream(classes, n int, seed uint64) (*model.Linear, []event.Example) {
	const columns = 12
	r := rand.New(rand.NewPCG(seed, 1))
	outputs := must.Either(classes == 2, 1, classes)
	weights := make([][]float64, outputs)
	for k := range weights {
		weights[k] = make([]float64, columns)
		for d := range columns {
			weights[k][d] = r.NormFloat64()
		}
	}
	names := must.List(classes, func(k int) string { return fmt.Sprint("class ", k) })
	m := model.NewLinear(event.NewSchema(10, names, 0), "logistic:gaussian", "none", weights, make([]float64, outputs))
	examples := make([]event.Example, n)
	for i := range examples {
		e := &examples[i]
		e.Weight = 1
		for d := range uint32(columns) {
			if r.IntN(3) > 0 {
				eventtest.Put(e, d, r.NormFloat64())
			}
		}
		e.Label = m.Predict(m.Score(e, make([]float64, outputs)))
	}
	return m, examples
}

func ExampleError() {
	m, examples := stream(2, 2000, 1)
	for _, s := range []string{"random:0", "random:0.5", "worst:1"} {
		nightmare, _ := Parse(s)
		fmt.Printf("%s %.0f %%\n", nightmare, 100*Error(m, examples, nightmare))
	}
	// Output:
	// random:0 0 %
	// random:0.5 26 %
	// worst:1 45 %
}

// TestWorst compares the features that Worst removes with every possible choice.
func TestWorst(t *testing.T) {
	for _, classes := range []int{2, 3, 4} {
		m, examples := stream(classes, 60, 3)
		m.Pairs = classes == 3
		scores := make([]float64, m.Outputs)
		margin := func(x event.Vec, class int) float64 {
			s := m.ScoreVec(x, scores)
			if m.Pairs { // sums of the margins of the pairs (1,0), (2,0) and (2,1)
				o := slices.Clone(m.Intercept)
				for i, d := range x.Index {
					for k := range o {
						o[k] += x.Value[i] * m.Weight(d, k)
					}
				}
				s = []float64{-o[0] - o[1], o[0] - o[2], o[1] + o[2]}
			}
			if len(s) == 1 {
				return s[0] * float64(2*class-1)
			}
			best := math.Inf(1)
			for k, f := range s {
				if k != class {
					best = min(best, s[class]-f)
				}
			}
			return best
		}
		for k := range 4 {
			for n := range examples {
				e := &examples[n]
				want := math.Inf(1)
				for mask := range 1 << e.Features.Len() {
					x, dead := e.Features.Clone(), 0
					for i := range x.Value {
						if mask>>i&1 == 1 {
							x.Value[i] = 0
							dead++
						}
					}
					if dead <= k {
						want = min(want, margin(x, e.Label))
					}
				}
				x, dead := e.Features.Clone(), make([]bool, e.Features.Len())
				Worst{K: k}.Kill(&Event{Stage: &Stage{Schema: m.Schema}, Model: m, X: x, Class: e.Label, Number: n, Dead: dead})
				for i := range dead {
					if dead[i] {
						x.Value[i] = 0
					}
				}
				got := margin(x, e.Label)
				must.Require(t, math.Abs(got-want) <= 1e-12, "%d classes, K=%d, example %d: margin %g, the lowest is %g", classes, k, n, got, want)
			}
		}
	}
}

// TestRandom checks that Random removes the configured fraction of features. The features must be the same as those
// that blankout predict --delete and blankout corrupt remove.
func TestRandom(t *testing.T) {
	m, examples := stream(2, 4000, 5)
	for repeat := range 2 {
		dead, all := 0, 0
		c := batch.Corrupter{Noise: loss.Dropout{Q: 0.3}, Seed: 7}
		for n := range examples {
			e := Event{Stage: &Stage{Schema: m.Schema, Seed: 7, Repeat: repeat}, X: examples[n].Features, Number: n, Dead: make([]bool, examples[n].Features.Len())}
			Random{Fraction: 0.3}.Kill(&e)
			x := examples[n].Features.Clone()
			c.Vec(x, nil, n, repeat)
			for i, d := range e.Dead {
				must.Require(t, d == (x.Value[i] == 0), "repetition %d, example %d: entry %d dead: %v, its corrupted value is %g", repeat, n, i, d, x.Value[i])
				if all++; d {
					dead++
				}
			}
		}
		fraction := float64(dead) / float64(all)
		must.True(t, math.Abs(fraction-0.3) <= 0.02, "a share of %g died", fraction)
	}
}

// TestKill compares the removed features and the changed values of one event with the expected result, for each
// nightmare.
func TestKill(t *testing.T) {
	numbered := event.NewSchema(10, []string{"0", "1"}, 0)
	numbered.NumericIndices = true
	named := event.NewSchema(10, []string{"0", "1"}, 0)
	named.AddField(event.Field{Name: "speed", Kind: event.Numeric, Group: "front"})
	named.AddField(event.Field{Name: "heat", Kind: event.Numeric, Group: "front"})
	named.AddField(event.Field{Name: "noise", Kind: event.Numeric})
	sparse := event.Vec{Index: []uint32{0, 2, 3, 5, 8, 15}, Value: []float64{1, 1, 1, 1, 1, 1}}
	fields := event.Vec{Index: []uint32{0, 2, 3, 5}, Value: []float64{1, 2, 3, 4}}
	for _, c := range []struct {
		nightmare string
		number    int
		named     bool
		dead      string    // by entry; x means removed
		value     []float64 // values after Distort; nil means unchanged
	}{
		{nightmare: "none", dead: "......"},
		{nightmare: "group:1", dead: "x....."},
		{nightmare: "group:3-6", dead: ".xxx.."},
		{nightmare: "group:1,9", dead: "x...x."},
		{nightmare: "group:mine", dead: "....xx"},
		{nightmare: "group:front", named: true, dead: "xx.."},
		{nightmare: "group:noise", named: true, dead: "..xx"},
		{nightmare: "group:heat", named: true, dead: ".x.."},
		// The image has 4 by 4 pixels, because the highest column is 15.
		{nightmare: "block:0,0,2,2", dead: "x..x.."},
		{nightmare: "block:2,0,2,4", dead: "....xx"},
		{nightmare: "block:4", dead: "xxxxxx"},
		{nightmare: "block:0,0,1,3/3", dead: "xx...."}, // 3 by 3 pixels, several colors
		{nightmare: "burst:1@5-7", number: 4, dead: "......"},
		{nightmare: "burst:1@5-7", number: 5, dead: "x....."},
		{nightmare: "burst:1@5-7", number: 6, dead: "x....."},
		{nightmare: "burst:1@5-7", number: 7, dead: "......"},
		{nightmare: "burst:1@10%-20%", number: 19, dead: "x....."}, // percentages of 100 events
		{nightmare: "random:0.999@10%-20%", number: 20, dead: "......"},
		{nightmare: "drift:speed:2,10", named: true, dead: "....", value: []float64{12, 2, 3, 4}},
		{nightmare: "drift:front:-1,0", named: true, dead: "....", value: []float64{-1, -2, 3, 4}},
		{nightmare: "stuck:noise:7", named: true, dead: "....", value: []float64{1, 2, 7, 7}},
		{nightmare: "stuck:noise:7@0-1", number: 1, named: true, dead: "....", value: []float64{1, 2, 3, 4}},
		// A sparse format omits zeros. A stuck sensor also replaces omitted values.
		{nightmare: "stuck:1-3:5", dead: ".......", value: []float64{5, 5, 5, 1, 1, 1, 1}},
		{nightmare: "drift:1-3:2,0", dead: "......", value: []float64{2, 2, 1, 1, 1, 1}},
	} {
		n := must.Get(Parse(c.nightmare))(t)
		stage := &Stage{Schema: numbered, Events: 100, Columns: 16, Groups: map[string][]event.Span{"mine": {{From: 8, To: 16}}}}
		e := &Event{Stage: stage, Number: c.number, X: sparse.Clone()}
		if c.named {
			stage.Schema, e.X, e.Field = named, fields.Clone(), []uint16{1, 2, 3, 3}
		}
		want := append([]float64(nil), e.X.Value...)
		if c.value != nil {
			want = c.value
		}
		n.Distort(e)
		e.Dead = make([]bool, e.X.Len())
		n.Kill(e)
		dead := ""
		for _, d := range e.Dead {
			dead += map[bool]string{true: "x", false: "."}[d]
		}
		must.True(t, dead == c.dead && slices.Equal(e.X.Value, want) && e.X.Check() == nil, "%s, event %d: dead %s of %v, want %s of %v", c.nightmare, c.number, dead, e.X.Value, c.dead, want)
	}
}

// TestGroupsWithSplines checks that the spline columns of a number do not form a separate group.
func TestGroupsWithSplines(t *testing.T) {
	splines := must.Get(model.NewSplines([]uint32{1}, [][]float64{{-1, 0, 1}}))(t)
	m := &model.Linear{Head: model.Head{Scaler: model.Scaler{Splines: splines}}}
	s := event.NewSchema(0, nil, 2)
	s.ColumnGroups = &event.ColumnGroups{Named: []event.NamedColumns{{Name: "g", Spans: []event.Span{{From: 0, To: 2}}}}}
	e := Event{Stage: &Stage{Schema: s, Seed: 3}, Model: m, X: event.Vec{Index: []uint32{1, 2, splines.BasisColumn(0, 1)}, Value: []float64{0, 1, 1}}}
	for e.Number = range 50 {
		Groups{Fraction: 0.5}.Kill(&e)
		must.True(t, e.Dead[2] == e.Dead[0], "event %d: dead are %v", e.Number, e.Dead)
	}
	must.Equal(t, e.grouping.Len(), 2, "groups, want g and that of column 2")
}

// TestAdditive checks that the noise has the configured standard deviation, and is the same for every subject.
func TestAdditive(t *testing.T) {
	m, examples := stream(2, 3000, 9)
	sum, square, all := 0.0, 0.0, 0.0
	for n := range examples {
		var x [2]event.Vec
		for i := range x {
			e := Event{Stage: &Stage{Schema: m.Schema, Seed: 3}, Number: n, X: examples[n].Features.Clone()}
			Additive{SD: 0.7}.Distort(&e)
			x[i] = e.X
		}
		for i, v := range x[0].Value {
			must.Require(t, v == x[1].Value[i], "other noise at the second time")
			d := v - examples[n].Features.Value[i]
			sum, square, all = sum+d, square+d*d, all+1
		}
	}
	mean, sd := sum/all, math.Sqrt(square/all)
	must.True(t, math.Abs(mean) <= 0.02 && math.Abs(sd-0.7) <= 0.02, "mean %g, deviation %g", mean, sd)
}

func TestParse(t *testing.T) {
	for _, s := range []string{"none", "random:0.5", "random:0", "worst:3", "group:front left", "group:1-8@0-10", "burst:1-8@10-20", "burst:heat@10%-20.5%",
		"block:3", "block:1,2,3,4", "block:1,2,3,4/28", "drift:heat:1.5,-2", "stuck:a:b:0", "noise:0.5", "noise:heat:0.5", "random:0.5@3-9"} {
		n, err := Parse(s)
		if err != nil {
			t.Errorf("Parse(%q): %v", s, err)
			continue
		}
		again, err := Parse(n.String())
		must.True(t, err == nil && again == n, "Parse(%q) writes itself as %q, which is %v, %v", s, n, again, err)
	}
	for _, s := range []string{"", "random", "random:1", "random:NaN", "worst:-1", "worst:x", "burst", "burst:1", "none:1", "group:", "block:0,0,0,1", "block:1,2",
		"drift:1,2", "drift:x:1", "stuck:1", "noise:-1", "group:1@5-5", "group:1@50%-101%", "group:1@5", "group:1@5%-9", "nothing:1"} {
		n, err := Parse(s)
		must.True(t, err != nil, "Parse(%q) = %v, want an error", s, n)
	}
}

func TestParseFamily(t *testing.T) {
	for s, want := range map[string]string{
		"random:0..0.3/0.1":    "[{random:0 0} {random:0.1 0.1} {random:0.2 0.2} {random:0.3 0.3}]",
		"random:0,0.5":         "[{random:0 0} {random:0.5 0.5}]",
		"worst:2":              "[{worst:2 2}]",
		"stuck:3:-1..1@10-20":  "[{stuck:3:-1@10-20 -1} {stuck:3:0@10-20 0} {stuck:3:1@10-20 1}]",
		"drift:heat:1,-1..1/2": "[{drift:heat:1,-1 -1} {drift:heat:1,1 1}]",
		"block:2..4/2":         "[{block:2 2} {block:4 4}]",
		"block:1,2,3,4":        "[{block:1,2,3,4 NaN}]",
		"group:1,2":            "[{group:1,2 NaN}]",
	} {
		f, err := ParseFamily(s)
		must.True(t, err == nil && fmt.Sprint(f.Levels) == want, "ParseFamily(%q) = %v, %v, want %s", s, f.Levels, err, want)
	}
	for _, s := range []string{"random:0..1/0.1", "random:0.5,x", "worst:1..0", "worst:0..9/0", "worst:0..1e9"} {
		f, err := ParseFamily(s)
		must.True(t, err != nil, "ParseFamily(%q) = %v, want an error", s, f.Levels)
	}
}

// TestWithNothing checks that a family whose level is an amount gets a level without effect, unless the family already
// has such a level.
func TestWithNothing(t *testing.T) {
	for s, want := range map[string]string{
		"random:0.5":          "[{random:0 0} {random:0.5 0.5}]",
		"random:0,0.5":        "[{random:0 0} {random:0.5 0.5}]",
		"groups:0.3,0.7":      "[{groups:0 0} {groups:0.3 0.3} {groups:0.7 0.7}]",
		"worst:2@10-20":       "[{worst:0@10-20 0} {worst:2@10-20 2}]",
		"noise:heat:1..2":     "[{noise:heat:0 0} {noise:heat:1 1} {noise:heat:2 2}]",
		"group:1,2":           "[{group:1,2 NaN}]",
		"stuck:3:1,2":         "[{stuck:3:1 1} {stuck:3:2 2}]",
		"stuck:3:1@10-20":     "[{stuck:3:1@10-20 1}]",
		"drift:heat:1,-1..-1": "[{drift:heat:1,-1 -1}]",
	} {
		must.Equal(t, fmt.Sprint(must.Get(ParseFamily(s))(t).WithNothing().Levels), want, s, "has the levels")
	}
	f := (Family{Name: "group:*"}).WithNothing()
	must.True(t, f.Levels == nil, "%+v", f)
}

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
