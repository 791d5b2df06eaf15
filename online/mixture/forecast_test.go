package mixture

import (
	"math"
	"math/rand/v2"
	"testing"
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
	if ratio := gap / told; !(ratio > 0.5 && ratio < 1.4) {
		t.Errorf("the squared errors of forecasts are %.2f times those that the forecasts tell", ratio)
	}
	if part := outside / (4 * runs); !(part < 0.1) {
		t.Errorf("%v of the forecasts are more than two standard errors off", part)
	}
	if gap = math.Sqrt(gap / (4 * runs)); !(gap < 0.03) {
		t.Errorf("the forecasts are %.4f off", gap)
	}
}

// TestCurveForgets checks that forecasts follow a model that has become better, and that they are not known at first.
func TestCurveForgets(t *testing.T) {
	var f Forecasts
	if x, deviation := f.At(&f.Features, 0, 0); x == x || deviation == deviation {
		t.Errorf("nothing has been forecast, and it is %v ± %v", x, deviation)
	}
	f.Whole.Add(1, Losses{0.5})
	if x, deviation := f.At(&f.Features, 5, 0); x == x || deviation == deviation {
		t.Errorf("nothing is known of masks, and the forecast is %v ± %v", x, deviation)
	}
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
		if got, _ := f.At(&f.Features, point, 0); !(math.Abs(got-want) < 0.02) {
			t.Errorf("forecast %.3f at point %d, want %.3f", got, point, want)
		}
	}
}
