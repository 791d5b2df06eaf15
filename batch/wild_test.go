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

// A few outliers of any size hardly change the statistics of a column: those beyond four deviations count as four. Long
// tails and rare values are not outliers: the statistics have the same bits as by definition.
func TestWildReadings(t *testing.T) {
	longtest.NotRaced(t)
	schema := event.NewSchema(4, []string{"a", "b"}, 2)
	schema.AddField(event.Field{Name: "x", Kind: event.Numeric})
	r := rand.New(rand.NewPCG(1, 9))
	draws := map[string]func() float64{
		"normal":    func() float64 { return 12 + 5*r.NormFloat64() },
		"lognormal": func() float64 { return math.Exp(3 * r.NormFloat64()) },
		"rare":      func() float64 { return float64(r.IntN(20) / 19) },
		"counts":    func() float64 { return math.Floor(math.Exp(2 * math.Abs(r.NormFloat64()))) },
		"bimodal":   func() float64 { return []float64{1, 1e6}[r.IntN(2)] * (1 + r.Float64()) },
	}
	fitOf := func(readings []float64, mode model.Standardize, field uint16) []float64 {
		fit := Standardizer{Transform: model.TransformNone}
		var b Builder
		for i, x := range readings {
			e := event.Example{Label: i % 2, Weight: 1, Features: event.Vec{Index: []uint32{3}, Value: []float64{x}}}
			if field > 0 {
				e.Field = []uint16{field}
			}
			fit.Observe(&e, schema)
			must.Do(t, b.Add(&e))
		}
		_, m, err := fit.Fit(b.Data(schema), mode)
		if err != nil {
			t.Fatal(err)
		}
		return m.Stats(m.Rows.Row(3))
	}
	for name, draw := range draws {
		clean := make([]float64, 5000)
		mean, m2, largest := 0.0, 0.0, 0.0
		for i := range clean {
			clean[i] = draw()
			delta := clean[i] - mean
			mean += delta / float64(i+1)
			m2 += delta * (clean[i] - mean)
			largest = max(largest, math.Abs(clean[i]))
		}
		deviation := math.Sqrt(m2 / 5000)
		for _, field := range []uint16{1, 0} { // a number, and a dense column of a sparse format
			if stats := fitOf(clean, model.StandardizeAuto, field); stats[model.StatCenter] != mean || math.Abs(stats[model.StatInverse]*deviation-1) > 1e-12 {
				t.Errorf("%s: center %v, inverse %v, want %v, %v", name, stats[model.StatCenter], stats[model.StatInverse], mean, 1/deviation)
			}
		}
		if stats := fitOf(clean, model.StandardizeScale, 0); stats[model.StatInverse] != 1/max(1, largest) {
			t.Errorf("%s: scale %v, want %v", name, 1/stats[model.StatInverse], largest)
		}
		for _, size := range []float64{1e12, -1e30, 1e300} {
			dirty := append([]float64(nil), clean...)
			wild := 0
			for i := range dirty {
				if r.IntN(50) == 0 {
					dirty[i] = size * (1 + r.Float64())
					wild++
				}
			}
			stats := fitOf(dirty, model.StandardizeAuto, 1)
			share := float64(wild) / 5000
			center, inverse := stats[model.StatCenter], stats[model.StatInverse]
			if math.Abs(center-mean) > deviation*(4*share+0.3) || !(inverse*deviation > 1/math.Sqrt(1+16*share)-0.5) || inverse*deviation > 2 {
				t.Errorf("%s with %d wild ones of size %g: center %v, deviation %v, without them %v, %v", name, wild, size, center, 1/inverse, mean, deviation)
			}
			if stats := fitOf(dirty, model.StandardizeScale, 0); !(stats[model.StatInverse]*max(1, largest) >= 1-1e-9) {
				t.Errorf("%s with wild ones of size %g: scale %v, without them %v", name, size, 1/stats[model.StatInverse], largest)
			}
		}
	}
	few := []float64{}
	for i := range 24 { // too few for a limit
		few = append(few, 1e-4*float64(1+i%5))
	}
	few[7] = 1
	if stats := fitOf(few, model.StandardizeAll, 0); !(stats[model.StatInverse] > 1e3) {
		t.Errorf("a wild one of 24: deviation %v", 1/stats[model.StatInverse])
	}
	two := []float64{}
	for i := range 1000 { // two of a thousand, above: counted at four deviations
		two = append(two, float64(i%2))
	}
	two[3], two[500] = 1e9, 1e20
	stats := fitOf(two, model.StandardizeAuto, 1)
	if want := (499.0*0 + 499*1 + 2*(0.5+4*0.5)) / 1000; math.Abs(stats[model.StatCenter]-want) > 2e-3 {
		t.Errorf("center %v, want %v", stats[model.StatCenter], want)
	}
}

// Wildest returns the column whose readings are farthest from their usual size, and none if all are ordinary.
func TestWildest(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 9))
	build := func(wild float64) *Data {
		var b Builder
		for i := range 500 {
			x := []float64{r.NormFloat64(), 1, float64(r.IntN(256)), math.Exp(r.NormFloat64())}
			if i == 77 {
				x[2] = 1e5
				x[3] = wild
			}
			must.Do(t, b.Add(&event.Example{Label: i % 2, Weight: 1, Features: event.Vec{Index: []uint32{1, 2, 5, 9}, Value: x}}))
		}
		return b.Data(event.NewSchema(4, []string{"a", "b"}, 2))
	}
	if column, _, _, ok := build(2).Wildest(); ok {
		t.Errorf("column %d is wild", column)
	}
	column, largest, usual, ok := build(-1e7).Wildest()
	if !ok || column != 9 || largest != 1e7 || math.Abs(usual-1) > 0.3 {
		t.Errorf("%d %g %g %v", column, largest, usual, ok)
	}
}
