package stuck

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"blankout/internal/coder"
	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/model"
)

// TestPlaceholders checks which repeated values count as placeholders: only those far from all other readings, or -1 and
// nines where nothing else is negative. Flags, counts, heavy tails and single outliers have none.
func TestPlaceholders(t *testing.T) {
	normal := func(r *rand.Rand) float64 { return 20 + 3*r.NormFloat64() }
	age := func(r *rand.Rand) float64 { return 18 + float64(r.IntN(70)) }
	for _, c := range []struct {
		name     string
		fraction float64
		value    float64
		draw     func(*rand.Rand) float64
		want     bool
	}{
		{"-999", 0.2, -999, normal, true}, {"9999", 0.1, 9999, normal, true}, {"largest int32", 0.1, math.MaxInt32, age, true},
		{"-1 of ages", 0.1, -1, age, true}, {"-99 of ages", 0.1, -99, age, true}, {"0 of ages", 0.1, 0, age, false}, {"-2 of ages", 0.1, -2, age, false},
		{"ordinary", 0.2, 21, normal, false}, {"one outlier", 0.005, 1e6, normal, false},
		{"flag", 0.2, 100, func(r *rand.Rand) float64 { return float64(r.IntN(2)) }, false},
		{"counts", 0.3, 0, func(r *rand.Rand) float64 { return math.Floor(r.ExpFloat64() * 5) }, false},
		{"heavy tails", 0, 0, func(r *rand.Rand) float64 { return math.Exp(3 * r.NormFloat64()) }, false},
		{"signed", 0.1, -1, func(r *rand.Rand) float64 { return math.Round(5 * r.NormFloat64()) }, false},
	} {
		r := rand.New(rand.NewPCG(5, 6))
		schema := eventtest.Schema(1, "", "no", "yes")
		var p, again Placeholders
		found := 0
		for i := range 3000 {
			x := c.draw(r)
			if r.Float64() < c.fraction {
				x = c.value
			}
			var e event.Example
			eventtest.Put(&e, 10, x, 1)
			for _, f := range p.Take(&e, schema.Fields) {
				if found++; f.Field != 1 || f.Column != 10 || f.Value != c.value || math.Abs(f.Fraction-c.fraction) > 0.2 || f.Low > f.High {
					t.Errorf("%s: %+v", c.name, f)
				}
			}
			if i == 40 || i == 2000 { // a restart
				var a, b coder.Coder
				p.State(&a)
				d := coder.Read(a.Out)
				if again.State(d); !d.Done() {
					t.Fatal("the state cannot be read")
				}
				p = again
				if p.State(&b); !bytes.Equal(a.Out, b.Out) {
					t.Fatal("the state changes")
				}
			}
		}
		n := 0
		p.Each(func(model.StuckField) { n++ })
		if (found == 1) != c.want || found > 1 || n != found {
			t.Errorf("%s: found %d times, %d placeholders", c.name, found, n)
		}
	}
}
