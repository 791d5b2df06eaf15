package papers

import (
	"math"
	"testing"

	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/internal/must"
	"blankout/online"
)

// TestCorruption checks the copies that a corruption makes. Survivors must be scaled or unchanged, and each copy must
// have one of the mixed rates. The example itself may be one of the copies, and the weights of the copies must add up
// to the weight of the example. Dead columns must have the values in reads, and groups must be removed as a whole.
func TestCorruption(t *testing.T) {
	const columns = 400
	e := event.Example{Label: 1, Weight: 3, Features: event.Vec{Index: make([]uint32, columns), Value: make([]float64, columns)}}
	reads := make([]float64, columns)
	for i := range columns {
		e.Features.Index[i], e.Features.Value[i], reads[i] = uint32(i), 2, -7
	}
	grouping := model.NewGrouping(&event.Schema{Classes: []string{"0", "1"}, ColumnGroups: &event.ColumnGroups{Every: 8}})
	for name, x := range map[string]struct {
		corruption
		survivor float64 // 0 if it depends on the rate
	}{
		"divided":       {corruption{noise: dropout, rates: []float64{0.5}, copies: 20}, 4},
		"as it happens": {corruption{noise: dropout, rates: []float64{0.5}, copies: 20, keep: true}, 2},
		"mixed":         {corruption{noise: dropout, rates: mixedRates, copies: 20, keep: true, whole: true}, 2},
		"mixed divided": {corruption{noise: dropout, rates: mixedRates, copies: 20, whole: true}, 0},
		"dead at -7":    {corruption{noise: dropout, rates: []float64{0.5}, copies: 20, keep: true, reads: reads}, 2},
		"groups":        {corruption{noise: groupDropout, rates: []float64{0.5}, copies: 20, keep: true, grouping: grouping}, 2},
	} {
		rates, whole := map[float64]int{}, 0
		if err := x.each(5, &e, func(copied *event.Example) error {
			alive := make([]bool, columns)
			for i, column := range copied.Features.Index {
				v := copied.Features.Value[i]
				if x.reads != nil && v == -7 {
					continue
				}
				if alive[column] = true; v != copied.Features.Value[0] && x.reads == nil || x.survivor != 0 && v != x.survivor {
					t.Fatalf("%s: a survivor reads %g", name, v)
				}
			}
			n := 0
			for i, a := range alive {
				if a {
					n++
				}
				if x.grouping != nil && a != alive[i/8*8] {
					t.Fatalf("%s: column %d does not die with its group", name, i)
				}
			}
			if x.reads != nil && len(copied.Features.Index) != columns || copied.Label != 1 {
				t.Fatalf("%s: %+v", name, copied)
			}
			if n == columns {
				whole++
				return nil
			}
			dead := 1 - float64(n)/columns
			for _, rate := range x.rates {
				if math.Abs(dead-rate) < 0.09 || x.grouping != nil {
					rates[rate]++
					if x.survivor == 0 && math.Abs(copied.Features.Value[0]-2/(1-rate)) > 1e-9 {
						t.Errorf("%s: %g %% dead, survivors read %g", name, 100*dead, copied.Features.Value[0])
					}
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		total := 0
		for _, n := range rates {
			total += n
		}
		if total != 20 || len(rates) != len(x.rates) || whole == 1 != x.whole {
			t.Errorf("%s: copies by rate %v, %d whole", name, rates, whole)
		}
		d := must.Get(x.data(Binary(), nil, []event.Example{e}))(t)
		sum := 0.0
		for i := range d.Rows() {
			sum += d.Weight(i)
			if d.Weight(i) != d.Weight(0) {
				t.Errorf("%s: weights %g and %g", name, d.Weight(i), d.Weight(0))
			}
		}
		if math.Abs(sum-3) > 1e-9 {
			t.Errorf("%s: %d rows of weight %g, want 3", name, d.Rows(), sum)
		}
	}
	l := must.Get(online.New(online.DefaultConfig(), Binary()))(t)
	if err := (&corruption{noise: dropout, rates: mixedRates, copies: 3, whole: true}).learn(l, []event.Example{e, e}); err != nil || l.Report().Events != 8 {
		t.Errorf("%d events learned, want 8: %v", l.Report().Events, err)
	}
	for _, x := range []struct {
		noise loss.Noise
		want  string
	}{{silent(0.5), "silent:0.5"}, {silentGroup(0.5), "silent-group:0.5"}} {
		if x.noise.String() != x.want {
			t.Errorf("%v, want %s", x.noise, x.want)
		}
	}
}
