package papers

import (
	"math"
	"math/bits"
	"testing"

	"blankout/batch"
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
		for copied := range x.each(5, &e) {
			alive := make([]bool, columns)
			for i, column := range copied.Features.Index {
				v := copied.Features.Value[i]
				if x.reads != nil && v == -7 {
					continue
				}
				alive[column] = true
				must.Require(t, (v == copied.Features.Value[0] || x.reads != nil) && (x.survivor == 0 || v == x.survivor), "%s: a survivor reads %g", name, v)
			}
			n := 0
			for i, a := range alive {
				if a {
					n++
				}
				must.Require(t, x.grouping == nil || a == alive[i/8*8], "%s: column %d does not die with its group", name, i)
			}
			must.Require(t, (x.reads == nil || len(copied.Features.Index) == columns) && copied.Label == 1, "%s: %+v", name, copied)
			if n == columns {
				whole++
				continue
			}
			dead := 1 - float64(n)/columns
			for _, rate := range x.rates {
				if math.Abs(dead-rate) < 0.09 || x.grouping != nil {
					rates[rate]++
					must.True(t, x.survivor != 0 || math.Abs(copied.Features.Value[0]-2/(1-rate)) <= 1e-9, "%s: %g %% dead, survivors read %g", name, 100*dead, copied.Features.Value[0])
				}
			}
		}
		total := 0
		for _, n := range rates {
			total += n
		}
		must.True(t, total == 20 && len(rates) == len(x.rates) && whole == 1 == x.whole, "%s: copies by rate %v, %d whole", name, rates, whole)
		d := x.data(Binary(), nil, []event.Example{e})
		sum := 0.0
		for i := range d.Rows() {
			sum += d.Weight(i)
			must.True(t, d.Weight(i) == d.Weight(0), "%s: weights %g and %g", name, d.Weight(i), d.Weight(0))
		}
		must.True(t, math.Abs(sum-3) <= 1e-9, "%s: %d rows of weight %g, want 3", name, d.Rows(), sum)
	}
	l := must.Get(online.New(online.DefaultConfig(), Binary()))(t)
	(&corruption{noise: dropout, rates: mixedRates, copies: 3, whole: true}).learn(l, []event.Example{e, e})
	must.Equal(t, l.Report().Events, 8, "events learned")
	for _, x := range []struct {
		noise loss.Noise
		want  string
	}{{silent(0.5), "silent:0.5"}, {silentGroup(0.5), "silent-group:0.5"}} {
		must.True(t, x.noise.String() == x.want, "%v, want %s", x.noise, x.want)
	}
}

// TestExactDropout compares the expectation with the sum over all enumerated masks, and its gradient with finite
// differences.
func TestExactDropout(t *testing.T) {
	rows := [][]uint32{{0, 1, 2, 5}, {1, 3}, {4}, {0, 2, 3, 4, 5, 6}, {}}
	var b batch.Builder
	for i, index := range rows {
		x := event.Vec{Index: index}
		for range index {
			x.Value = append(x.Value, 1)
		}
		must.Do(t, b.Add(&event.Example{Features: x, Label: i % 2, Weight: 1}))
	}
	d := b.Data(Binary())
	// Test small and very large scores. The last weight is the intercept.
	for _, scale := range []float64{0.1, 1, 30} {
		for _, q := range []float64{0.1, 0.5, 0.9} {
			testExactDropout(t, d, rows, scale, q)
		}
	}
}

func testExactDropout(t *testing.T, d *batch.Data, rows [][]uint32, scale, q float64) {
	w := []float64{0.3, -1.2, 2.5, 0.7, -0.9, 1.1, -2, 0.4}
	for c := range w {
		w[c] *= scale
	}
	o := newExactDropout(d, q, 0.01, 2)
	got, want := o.expectations(w, nil), 0.0
	for i, index := range rows {
		e := 0.0
		for mask := range 1 << len(index) {
			alive := bits.OnesCount(uint(mask))
			f := w[7]
			for j, c := range index {
				if mask>>j&1 == 1 {
					f += w[c] / (1 - q)
				}
			}
			e += math.Pow(1-q, float64(alive)) * math.Pow(q, float64(len(index)-alive)) * (max(f, 0) + math.Log1p(math.Exp(-math.Abs(f))))
		}
		f := d.Row(i).Dot(w) + w[7]
		want += e - float64(i%2)*f
		must.True(t, math.Abs(got[i]-e) <= 1e-8*(1+e), "q = %g, row %d: %.12g, by all masks %.12g", q, i, got[i], e)
	}
	for _, x := range w[:7] {
		want += 0.01 * x * x
	}
	grad := make([]float64, len(w))
	value := o.ValueGrad(w, grad)
	must.True(t, math.Abs(value-want) <= 1e-7*(1+want), "q = %g: %.12g, by all masks %.12g", q, value, want)
	for c := range w {
		at := append([]float64(nil), w...)
		at[c] += 1e-5
		up := o.ValueGrad(at, nil)
		at[c] -= 2e-5
		slope := (up - o.ValueGrad(at, nil)) / 2e-5
		must.True(t, math.Abs(slope-grad[c]) <= 1e-6, "q = %g: gradient %d is %.9g, by differences %.9g", q, c, grad[c], slope)
	}
}

// TestPoissonPenalty checks that the product formula for R of Poisson regression equals the sum over all masks.
func TestPoissonPenalty(t *testing.T) {
	var b batch.Builder
	for _, x := range [][]float64{{1, 1, 1}, {0.5, -2, 1}} {
		must.Do(t, b.Add(&event.Example{Weight: 1, Features: event.Vec{Index: []uint32{0, 1, 2}, Value: x}}))
	}
	d := b.Data(event.NewSchema(8, []string{"0", "1"}, 2))
	w, q, want := []float64{0.3, -0.7, 1.1, 0.5}, 0.3, 0.0
	for i := range d.Rows() {
		row := d.Row(i)
		for mask := range 8 {
			chance, f := 1.0, w[3]
			for j := range 3 {
				if mask>>j&1 == 0 {
					chance *= q
				} else {
					chance *= 1 - q
					f += row.At(j) * w[j] / (1 - q)
				}
			}
			want += chance * math.Exp(f)
		}
		want -= math.Exp(row.Dot(w) + w[3])
	}
	got := poissonPenalty(d, w, q)
	must.True(t, math.Abs(got-want) <= 1e-12*want, "%v, want %v", got, want)
}

// TestEqualLoss checks that penalties are compared at equal negative log-likelihood, whatever the steps of training
// are.
func TestEqualLoss(t *testing.T) {
	at := func(logLoss, ratio float64) penaltyTrace {
		return penaltyTrace{LogLoss: logLoss, R: 2, Penalties: penalties{Quadratic: 2 * ratio}}
	}
	trace := []penaltyTrace{at(400, 1), at(100, 1), at(25, 0.25), at(90, 7), at(20, 0.2)}
	for _, c := range []struct{ logLoss, want float64 }{{500, 1}, {400, 1}, {200, 1}, {100, 1}, {50, 0.5}, {25, 0.25}, {1, 0.2}} {
		got := ratioAt(trace, c.logLoss)
		must.True(t, math.Abs(got-c.want) <= 1e-12, "at %g: %g, want %g", c.logLoss, got, c.want)
	}
	// 100 / 1.25, because the ratio decreases as fast as the loss
	got := nearUntil(trace, 800, 10)
	must.True(t, got >= 80 && got <= 81, "near until %g", got)
	got = nearUntil(trace[:2], 800, 200)
	must.True(t, got >= 200 && got <= 202.1, "near to the end: %g", got)
}

// TestZScores checks that each column has mean 0 and variance 1, with absent values as 0.
func TestZScores(t *testing.T) {
	var b batch.Builder
	for i := range 40 {
		x := event.Vec{Index: []uint32{3}, Value: []float64{5 + float64(i%7)}}
		if i%4 > 0 {
			x.Index, x.Value = append(x.Index, 8), append(x.Value, 2+float64(i%5))
		}
		must.Do(t, b.Add(&event.Example{Label: i % 2, Weight: 1, Features: x}))
	}
	d, _ := zScores(b.Data(Binary()))
	sum, squares := make([]float64, d.Columns()), make([]float64, d.Columns())
	for i := range d.Rows() {
		row := d.Row(i)
		for j, c := range row.Index {
			sum[c] += row.At(j)
			squares[c] += row.At(j) * row.At(j)
		}
	}
	for c := range sum {
		n := float64(d.Rows())
		must.True(t, math.Abs(sum[c]/n) <= 1e-6 && math.Abs(squares[c]/n-1) <= 1e-6, "column %d: mean %v, variance %v", d.Column(c), sum[c]/n, squares[c]/n)
	}
}
