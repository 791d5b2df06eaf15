package batch

import (
	"math"
	"math/rand/v2"
	"testing"

	"blankout/internal/event"
	"blankout/internal/longtest"
	"blankout/internal/model"
	"blankout/internal/must"
)

// TestOutliersDoNotSetTheScale checks that one outlier of any size in fifty values changes the center of a column by
// less than half of its deviation. The scale must change by less than a factor of two.
func TestOutliersDoNotSetTheScale(t *testing.T) {
	longtest.NotRaced(t)
	schema := event.NewSchema(4, []string{"a", "b"}, 2)
	schema.AddField(event.Field{Name: "x", Kind: event.Numeric})
	draws := map[string]func(r *rand.Rand) float64{
		"normal":    func(r *rand.Rand) float64 { return 12 + 5*r.NormFloat64() },
		"lognormal": func(r *rand.Rand) float64 { return math.Exp(3 * r.NormFloat64()) },
		"counts":    func(r *rand.Rand) float64 { return math.Floor(math.Exp(2 * math.Abs(r.NormFloat64()))) },
		"bimodal":   func(r *rand.Rand) float64 { return []float64{1, 1e6}[r.IntN(2)] * (1 + r.Float64()) },
	}
	for name, draw := range draws {
		for _, field := range []uint16{0, 1} { // column of a sparse text format, and numeric field
			fitOf := func(size float64) model.Standardization {
				r, chance := rand.New(rand.NewPCG(1, 9)), rand.New(rand.NewPCG(2, 9))
				fit := Standardizer{Mode: model.StandardizeAuto}
				var b Builder
				for i := range 5000 {
					x := draw(r)
					if chance.IntN(50) == 0 && size != 0 {
						x = size * (1 + chance.Float64())
					}
					e := event.Example{Label: i % 2, Weight: 1, Features: event.Vec{Index: []uint32{3}, Value: []float64{x}}}
					if field > 0 {
						e.Field = []uint16{field}
					}
					fit.Observe(&e, schema)
					must.Do(t, b.Add(&e))
				}
				_, m := must.Get2(fit.Fit(b.Data(schema)))(t)
				return m.Scaler.Standardization(m.Stats(m.Rows.Row(3)))
			}
			want := fitOf(0)
			for _, size := range []float64{1e12, -1e30, 1e300} {
				got := fitOf(size)
				if got.Transform != want.Transform || !(math.Abs(got.Center-want.Center) < 0.5*want.Scale) || !(math.Abs(math.Log(got.Scale/want.Scale)) < math.Ln2) {
					t.Errorf("%s, field %d, outliers of size %g: %+v, without them %+v", name, field, size, got, want)
				}
			}
		}
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
	if column, _, _, ok := build(2).FarthestOutlier(); ok {
		t.Errorf("column %d is wild", column)
	}
	column, largest, usual, ok := build(-1e7).FarthestOutlier()
	if !ok || column != 9 || largest != 1e7 || math.Abs(usual-1) > 0.3 {
		t.Errorf("%d %g %g %v", column, largest, usual, ok)
	}
}
