package mixture

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout/internal/event"
	"blankout/internal/must"
)

// TestCurve compares the forecasts of a stream, whose losses grow by .2 d + .3 d^3 and follow the difficulty of their event,
// with these losses and with the forecasts' own standard errors. Half of the points of each mask are not known.
func TestCurve(t *testing.T) {
	const runs, events = 200, 400
	var gap, told, outside float64
	for run := range uint64(runs) {
		r := rand.New(rand.NewPCG(run, 1))
		var f Forecasts
		for number := uint64(1); number <= 8*events; number++ {
			wrong := func(u, p float64) (x Losses) {
				if u < p {
					x[0] = 1
				}
				return x
			}
			u := r.Float64() // an event that is predicted wrongly with few missing features is with many
			whole := wrong(u, 0.1)
			f.Whole.Add(number, whole)
			if number%8 > 0 {
				continue
			}
			var masked [Points]Losses
			for point := range masked {
				d := Missing(point)
				if masked[point] = wrong(u, 0.1+0.2*d+0.3*d*d*d); r.IntN(2) == 0 {
					masked[point] = Losses{math.NaN(), math.NaN()}
				}
			}
			f.Features.Add(number, whole, &masked)
		}
		for _, point := range []int{0, 3, 5, 9} {
			d := Missing(point)
			got, deviation := f.At(&f.Features, point, 0)
			off := got - (0.1 + 0.2*d + 0.3*d*d*d)
			gap, told = gap+off*off, told+deviation*deviation
			if math.Abs(off) > 2*deviation {
				outside++
			}
		}
	}
	ratio := gap / told
	must.True(t, ratio > 0.5 && ratio < 1.4, "the squared errors of forecasts are %.2f times those that the forecasts tell", ratio)
	part := outside / (4 * runs)
	must.True(t, part < 0.1, "%v of the forecasts are more than two standard errors off", part)
	gap = math.Sqrt(gap / (4 * runs))
	must.True(t, gap < 0.03, "the forecasts are %.4f off", gap)
}

// TestCurveForgets checks that forecasts follow a model that has become better, and that they are not known at first.
func TestCurveForgets(t *testing.T) {
	var f Forecasts
	x, deviation := f.At(&f.Features, 0, 0)
	must.True(t, x != x && deviation != deviation, "nothing has been forecast, and it is %v ± %v", x, deviation)
	f.Whole.Add(1, Losses{0.5})
	x, deviation = f.At(&f.Features, 5, 0)
	must.True(t, x != x && deviation != deviation, "nothing is known of masks, and the forecast is %v ± %v", x, deviation)
	for number := uint64(2); number <= 4000; number++ {
		whole, grows := 0.5, 0.4
		if number > 1000 {
			whole, grows = 0.1, 0.2
		}
		f.Whole.Add(number, Losses{whole})
		var masked [Points]Losses
		for point := range masked {
			masked[point][0] = whole + grows*Missing(point)
		}
		f.Features.Add(number, Losses{whole}, &masked)
	}
	for point, want := range map[int]float64{0: 0.1, 5: 0.2, 9: 0.28} {
		got, _ := f.At(&f.Features, point, 0)
		must.True(t, math.Abs(got-want) < 0.02, "forecast %.3f at point %d, want %.3f", got, point, want)
	}
}

// TestMask checks that every field is missing at a point with the probability of that point, independently of other
// fields. In eight consecutive masks each field must get a rate in each eighth of [0, 1] once.
func TestMask(t *testing.T) {
	schema := event.NewSchema(8, []string{"no", "yes"}, 2)
	x := Features{Schema: schema}
	for i := range 10 {
		schema.AddField(event.Field{Name: string(rune('a' + i)), Kind: event.Numeric})
		x.Columns, x.Field = append(x.Columns, uint32(i+1)), append(x.Field, uint16(i+1))
	}
	var m Mask
	const point, masks = 3, 8000
	var died [10]int
	both, orders := 0, map[string]bool{}
	rows := make([][]int8, 10)
	for n := range masks {
		m.Draw(x, uint64(8000+n), nil)
		for i, last := range m.Last {
			if last < point {
				died[i]++
			}
			rows[i] = append(rows[i], last)
		}
		if m.Last[2] < point && m.Last[7] < point {
			both++
		}
		if n%8 != 7 {
			continue
		}
		for i, lasts := range rows {
			orders[fmt.Sprint(lasts)] = true
			slices.Sort(lasts)
			for j, last := range lasts {
				must.Require(t, int(last) >= j*Points/8 && int(last) <= (j+1)*Points/8, "masks up to %d: column %d survives up to the points %v", n, i, lasts)
			}
			rows[i] = rows[i][:0]
		}
	}
	dead := 0
	for _, last := range m.Last {
		if last < point {
			dead++
		}
	}
	must.True(t, m.Dead[point] == float64(dead), "%v fields are dead, want %d", m.Dead[point], dead)
	for i, n := range died {
		weight := float64(n) / masks
		must.True(t, math.Abs(weight-0.3) <= 0.01, "column %d dies in %v of the masks, want 0.3", i, weight)
	}
	weight := float64(both) / masks
	must.True(t, math.Abs(weight-0.09) <= 0.02, "two columns die together in %v of the masks, want 0.09", weight)
	// 10 if the orders repeated
	must.True(t, len(orders) >= 20, "10,000 times eight masks have only %d orders", len(orders))
}
