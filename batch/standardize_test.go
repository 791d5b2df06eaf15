package batch

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/longtest"
	"blankout/internal/model"
	"blankout/internal/must"
)

// TestStandardizerFit checks the values of each kind of column against their definition. The returned model must
// standardize an example to the same values.
func TestStandardizerFit(t *testing.T) {
	const n = 200
	kinds := []event.Kind{event.Sparse, event.Numeric, event.Categorical, event.Cross}
	schema := event.NewSchema(10, []string{"a", "b"}, 2)
	schema.Fields = nil
	for _, k := range kinds {
		schema.Fields = append(schema.Fields, event.Field{Name: k.String(), Kind: k})
	}
	columns := []struct {
		name  string
		field uint16
		share float64 // fraction of the events that have the column
		draw  func(r *rand.Rand) float64
		as    map[model.Standardize]string // expected treatment of the column
	}{
		{"numeric", 1, 0.6, func(r *rand.Rand) float64 { return 50 + 7*r.NormFloat64() }, map[model.Standardize]string{"auto": "centered", "scale": "divided", "all": "centered"}},
		{"constant", 1, 1, func(*rand.Rand) float64 { return 3.7 }, map[model.Standardize]string{"auto": "zero", "scale": "divided", "all": "zero"}},
		{"category", 2, 0.3, func(*rand.Rand) float64 { return 1 }, map[model.Standardize]string{"auto": "unchanged", "scale": "divided", "all": "by deviation"}},
		{"cross", 3, 0.5, func(r *rand.Rand) float64 { return 4 * r.Float64() }, map[model.Standardize]string{"auto": "divided", "scale": "divided", "all": "by deviation"}},
		{"dense", 0, 0.95, func(r *rand.Rand) float64 { return 5 + r.NormFloat64() }, map[model.Standardize]string{"auto": "with zeros", "scale": "divided", "all": "with zeros"}},
		{"present", 0, 0.95, func(*rand.Rand) float64 { return 1 }, map[model.Standardize]string{"auto": "divided", "scale": "divided", "all": "with zeros"}},
		{"rare", 0, 0.2, func(r *rand.Rand) float64 { return 9*r.Float64() - 6 }, map[model.Standardize]string{"auto": "by deviation", "scale": "divided", "all": "by deviation"}},
		{"small", 0, 0.2, func(r *rand.Rand) float64 { return 0.5 * r.Float64() }, map[model.Standardize]string{"auto": "by deviation", "scale": "divided", "all": "by deviation"}},
	}
	r := rand.New(rand.NewPCG(7, 8))
	var b Builder
	fits := map[model.Standardize]*Standardizer{"auto": {Mode: "auto"}, "scale": {Mode: "scale"}, "all": {Mode: "all"}}
	var raw []event.Example
	readings := make([][]float64, len(columns)) // readings by column, without absent values
	for i := range n {
		e := event.Example{Label: i % 2, Weight: 1}
		for c, column := range columns {
			if i == 0 || r.Float64() < column.share {
				x := column.draw(r)
				readings[c] = append(readings[c], x)
				eventtest.Put(&e, uint32(10*c), x, column.field)
			}
		}
		raw = append(raw, e)
		for _, f := range fits {
			f.Observe(&e, schema)
		}
		must.Do(t, b.Add(&e))
	}
	d := b.Data(schema)
	moments := func(x []float64, n float64) (mean, sd float64) {
		for _, x := range x {
			mean += x / n
		}
		for _, x := range x {
			sd += (x - mean) * (x - mean) / n
		}
		return mean, math.Sqrt(sd + (n-float64(len(x)))*mean*mean/n)
	}
	for _, mode := range []model.Standardize{"auto", "scale", "all"} {
		fitted, m := must.Get2(fits[mode].Fit(d))(t)
		for i, e := range raw {
			got := fitted.Vec(i, event.Vec{})
			for c, column := range columns {
				x, present := valueOf(e.Features, uint32(10*c))
				mean, sd := moments(readings[c], float64(len(readings[c])))
				all, spread := moments(readings[c], n)
				want, tolerance := x, 1e-9
				switch as := column.as[mode]; {
				case as == "with zeros":
					// Some of the zeros were more than four deviations from the mean when they were read. Such a zero
					// counts as four deviations.
					want, tolerance = (x-all)/spread, 0.15
				case !present || as == "zero":
					want = 0
				case as == "divided": // divided by a number between half of the largest value and the largest value
					largest := max(1, slices.Max(readings[c]), -slices.Min(readings[c]))
					want, tolerance = 1.5*x/largest, 0.5*math.Abs(x/largest)+1e-9
				case as == "centered":
					want = (x - mean) / sd
				case as == "by deviation":
					want, tolerance = x/spread, 0.05*math.Abs(x)/spread
				}
				y, _ := valueOf(got, uint32(10*c))
				must.Require(t, math.Abs(y-want) <= tolerance, "%s, row %d: %s %v becomes %v, want %v", mode, i, column.name, x, y, want)
			}
			again := m.Standardized(&e, event.Vec{})
			must.Require(t, fitted.Label(i) == e.Label && fitted.Weight(i) == e.Weight, "%s: row %d has another label or weight", mode, i)
			for j, c := range again.Index {
				y, _ := valueOf(got, c)
				must.Require(t, y == again.Value[j], "%s, row %d, column %d: the model makes %v of it, Fit %v", mode, i, c, again.Value[j], y)
			}
		}
	}
}

// valueOf returns the value of a column, and whether it is present.
func valueOf(x event.Vec, column uint32) (float64, bool) {
	if i, ok := slices.BinarySearch(x.Index, column); ok {
		return x.Value[i], true
	}
	return 0, false
}

// heavyTails returns events of two classes with three normal and two lognormal fields, whose logarithms have the
// standard deviation sigma. Predicting the class frequencies has a log-loss of 0.54.
func heavyTails(seed uint64, n int, sigma float64) (*event.Schema, []event.Example) {
	s := eventtest.Schema(5, "", "0", "1")
	r := rand.New(rand.NewPCG(seed, 17))
	var out []event.Example
	for range n {
		x := must.List(5, func(int) float64 { return r.NormFloat64() })
		odds := -1.3 + 0.3*(x[0]-x[1]+x[2]+x[3])
		x[3], x[4] = math.Exp(sigma*x[3]), math.Exp(sigma*x[4])
		e := event.Example{Weight: 1, Features: event.Vec{Index: []uint32{0, 1, 2, 3, 4}, Value: x}, Field: []uint16{1, 2, 3, 4, 5}}
		e.Label = must.Either(r.Float64() < 1/(1+math.Exp(-odds)), 1, 0)
		out = append(out, e)
	}
	return s, out
}

// TestStandardizerTransforms checks that an exact solution transforms heavy tails as the online learner does. The model
// must keep the transforms.
func TestStandardizerTransforms(t *testing.T) {
	longtest.NotRaced(t)
	for _, sigma := range []float64{1, 3} {
		for seed := range uint64(3) {
			s, events := heavyTails(seed, 4000, sigma)
			trained, tested := events[:2000], events[2000:]
			fit := Standardizer{Mode: model.StandardizeAuto}
			var b Builder
			for i := range trained {
				fit.Observe(&trained[i], s)
				must.Do(t, b.Add(&trained[i]))
			}
			d, scaler := must.Get2(fit.Fit(b.Data(s)))(t)
			m := must.Get(Train(t.Context(), d, DefaultConfig()))(t).Model.WithScaler(scaler)
			for i, e := range trained[:100] {
				want, got := d.Vec(i, event.Vec{}), m.Standardized(&e, event.Vec{})
				for c := range uint32(5) {
					x, _ := valueOf(want, c)
					must.Require(t, x == got.Value[c], "column %d: the model makes %v of it, Fit %v", c, got.Value[c], x)
				}
			}
			loss := 0.0
			for i := range tested {
				p := m.Probabilities(m.Score(&tested[i], make([]float64, 1)), make([]float64, 2))
				loss -= math.Log(p[tested[i].Label]) / float64(len(tested))
			}
			transforms := must.List(5, func(c int) string { return m.Scaler.Standardization(m.Stats(m.Rows.Row(uint32(c)))).Transform })
			want := must.Either(sigma == 3, []string{"", "", "", "asinh", "asinh"}, make([]string, 5))
			must.True(t, slices.Equal(transforms, want) && loss <= 0.52, "sigma %v, seed %d: %q, log-loss %.3f", sigma, seed, transforms, loss)
		}
	}
}

// TestStandardizerReviewsAtTheEnd checks a column that becomes dense after the 20th example, where the last regular
// review of columns takes place. The column must be standardized as dense.
func TestStandardizerReviewsAtTheEnd(t *testing.T) {
	schema := event.NewSchema(4, []string{"a", "b"}, 2)
	fit := Standardizer{Mode: model.StandardizeAuto}
	var b Builder
	for i := range 35 {
		e := event.Example{Label: i % 2, Weight: 1, Features: event.Vec{Index: []uint32{1}, Value: []float64{float64(i)}}}
		if i > 2 {
			e.Features.Index, e.Features.Value = append(e.Features.Index, 2), append(e.Features.Value, float64(i*i))
		}
		fit.Observe(&e, schema)
		must.Do(t, b.Add(&e))
	}
	_, m := must.Get2(fit.Fit(b.Data(schema)))(t)
	must.True(t, slices.Equal(m.Scaler.Dense, []uint32{1, 2}), "dense columns %v, want 1 and 2", m.Scaler.Dense)
}

// TestStandardizerCountsWeights checks that an example of weight 3 is standardized as three examples, and one of weight 0
// as none.
func TestStandardizerCountsWeights(t *testing.T) {
	schema := event.NewSchema(10, []string{"a", "b"}, 2)
	schema.Fields = []event.Field{{Name: "sparse", Kind: event.Sparse}, {Name: "number", Kind: event.Numeric}}
	r := rand.New(rand.NewPCG(1, 2))
	weighted, repeated := Standardizer{Mode: model.StandardizeAuto}, Standardizer{Mode: model.StandardizeAuto}
	var a, b Builder
	for i := range 50 {
		e := event.Example{Label: i % 2, Weight: float64(i % 4)}
		eventtest.Put(&e, 3, math.Exp(r.NormFloat64()), 0)
		eventtest.Put(&e, 7, math.Exp(r.NormFloat64()), 1)
		weighted.Observe(&e, schema)
		must.Do(t, a.Add(&e))
		e.Weight = 1
		for range i % 4 {
			repeated.Observe(&e, schema)
			must.Do(t, b.Add(&e))
		}
	}
	_, got := must.Get2(weighted.Fit(a.Data(schema)))(t)
	_, want := must.Get2(repeated.Fit(b.Data(schema)))(t)
	if e := (&event.Example{Features: event.Vec{Index: []uint32{3, 7}, Value: []float64{2, 2}}}); !slices.Equal(got.Standardized(e, event.Vec{}).Value, want.Standardized(e, event.Vec{}).Value) {
		t.Errorf("weighted %v, repeated %v", got.Standardized(e, event.Vec{}), want.Standardized(e, event.Vec{}))
	}
}

// TestFarthestOutliers checks that FarthestOutlier returns the column whose readings are farthest from their usual size. It must
// return none if all readings are ordinary.
func TestFarthestOutliers(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 9))
	build := func(outlier float64) *Data {
		var b Builder
		for i := range 500 {
			x := []float64{r.NormFloat64(), 1, float64(r.IntN(256)), math.Exp(r.NormFloat64())}
			if i == 77 {
				x[2] = 1e5
				x[3] = outlier
			}
			must.Do(t, b.Add(&event.Example{Label: i % 2, Weight: 1, Features: event.Vec{Index: []uint32{1, 2, 5, 9}, Value: x}}))
		}
		return b.Data(event.NewSchema(4, []string{"a", "b"}, 2))
	}
	column, _, _, ok := build(2).FarthestOutlier()
	must.True(t, !ok, "column %d is wild", column)
	column, largest, usual, ok := build(-1e7).FarthestOutlier()
	must.True(t, ok && column == 9 && largest == 1e7 && math.Abs(usual-1) <= 0.3, "%d %g %g %v", column, largest, usual, ok)
}

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
		must.Require(t, err == nil && trained.Converged, "%v", err)
		return m.Scaler.Splines, trained.TrainError(d)
	}
	splines, with := fitOf(Standardizer{Presence: true}, model.StandardizeAuto)
	must.Require(t, splines != nil && slices.Equal(splines.Columns, []uint32{20}) && slices.Equal(splines.Knots[0], model.Present()), "%+v, want the presence of column 20", splines)
	splines, without := fitOf(Standardizer{}, model.StandardizeAuto)
	must.True(t, splines == nil, "not asked for: %+v", splines)
	// the Bayes error is 0.1
	must.True(t, with <= 0.13 && without >= 0.3, "training errors %.3f, without %.3f", with, without)
	splines, _ = fitOf(Standardizer{Presence: true}, model.StandardizeScale)
	must.True(t, splines == nil, "nothing is centered: %+v", splines)
}
