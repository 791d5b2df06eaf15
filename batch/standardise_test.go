package batch

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout"
)

// What Fit makes of each kind of column, against the definition, and that the model
// which it returns makes the same of a raw example.
func TestStandardiserFit(t *testing.T) {
	const n = 200
	kinds := []blankout.Kind{blankout.Sparse, blankout.Numeric, blankout.Categorical, blankout.Cross}
	schema := blankout.NewSchema(10, []string{"a", "b"}, 2)
	schema.Fields = nil
	for _, k := range kinds {
		schema.Fields = append(schema.Fields, blankout.Field{Name: k.String(), Kind: k})
	}
	columns := []struct {
		name  string
		field uint16
		share float64 // of the events that have it
		draw  func(r *rand.Rand) float64
		as    map[blankout.Standardise]string // alone, scaled, centred over those that have it, or over all
	}{
		{"numeric", 1, 0.6, func(r *rand.Rand) float64 { return 50 + 7*r.NormFloat64() }, map[blankout.Standardise]string{"auto": "centred", "scale": "scaled", "all": "centred"}},
		{"constant", 1, 1, func(*rand.Rand) float64 { return 3.7 }, map[blankout.Standardise]string{"auto": "zero", "scale": "scaled", "all": "zero"}},
		{"category", 2, 0.3, func(*rand.Rand) float64 { return 1 }, map[blankout.Standardise]string{"auto": "alone", "scale": "scaled", "all": "filled"}},
		{"cross", 3, 0.5, func(r *rand.Rand) float64 { return 4 * r.Float64() }, map[blankout.Standardise]string{"auto": "scaled", "scale": "scaled", "all": "filled"}},
		{"dense", 0, 0.95, func(r *rand.Rand) float64 { return 5 + r.NormFloat64() }, map[blankout.Standardise]string{"auto": "filled", "scale": "scaled", "all": "filled"}},
		{"present", 0, 0.95, func(*rand.Rand) float64 { return 1 }, map[blankout.Standardise]string{"auto": "scaled", "scale": "scaled", "all": "filled"}},
		{"rare", 0, 0.2, func(r *rand.Rand) float64 { return 9*r.Float64() - 6 }, map[blankout.Standardise]string{"auto": "scaled", "scale": "scaled", "all": "filled"}},
		{"small", 0, 0.2, func(r *rand.Rand) float64 { return 0.5 * r.Float64() }, map[blankout.Standardise]string{"auto": "scaled", "scale": "scaled", "all": "filled"}},
	}
	r := rand.New(rand.NewPCG(7, 8))
	var b Builder
	var fit Standardiser
	var raw []blankout.Example
	readings := make([][]float64, len(columns)) // without the absent ones
	for i := range n {
		e := blankout.Example{Label: i % 2, Weight: 1}
		for c, column := range columns {
			if i == 0 || r.Float64() < column.share {
				x := column.draw(r)
				readings[c] = append(readings[c], x)
				e.Features.Index, e.Features.Value, e.Field = append(e.Features.Index, uint32(10*c)), append(e.Features.Value, x), append(e.Field, column.field)
			}
		}
		raw = append(raw, e)
		fit.Observe(&e, schema)
		if err := b.Add(&e); err != nil {
			t.Fatal(err)
		}
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
	for _, mode := range []blankout.Standardise{"auto", "scale", "all"} {
		fitted, m, err := fit.Fit(d, mode)
		if err != nil {
			t.Fatal(err)
		}
		for i, e := range raw {
			got := fitted.Vec(i, blankout.Vec{})
			for c, column := range columns {
				x, present := valueOf(e.Features, uint32(10*c))
				mean, sd := moments(readings[c], float64(len(readings[c])))
				all, spread := moments(readings[c], n)
				want := x
				switch as := column.as[mode]; {
				case as == "filled":
					want = (x - all) / spread
				case !present || as == "zero":
					want = 0
				case as == "scaled":
					want = x / max(1, slices.Max(readings[c]), -slices.Min(readings[c]))
				case as == "centred":
					want = (x - mean) / sd
				}
				if y, _ := valueOf(got, uint32(10*c)); math.Abs(y-want) > 1e-9 {
					t.Fatalf("%s, row %d: %s %v becomes %v, want %v", mode, i, column.name, x, y, want)
				}
			}
			again := m.Standardised(&e, blankout.Vec{})
			if fitted.Label(i) != e.Label || fitted.Weight(i) != e.Weight {
				t.Fatalf("%s: row %d has another label or weight", mode, i)
			}
			for j, c := range again.Index {
				if y, _ := valueOf(got, c); y != again.Value[j] {
					t.Fatalf("%s, row %d, column %d: the model makes %v of it, Fit %v", mode, i, c, again.Value[j], y)
				}
			}
		}
	}
}

// valueOf returns the value of a column, and whether it is there.
func valueOf(x blankout.Vec, column uint32) (float64, bool) {
	if i, ok := slices.BinarySearch(x.Index, column); ok {
		return x.Value[i], true
	}
	return 0, false
}
