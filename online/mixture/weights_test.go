package mixture

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"blankout/internal/event"
	"blankout/internal/model"
	"blankout/internal/must"
)

var prior = []float64{0.8, 0.1, 0.1}

// settings returns settings of three components, whose initial weights are prior.
func settings() Settings {
	return Settings{Components: len(prior), Scales: []float64{0.7, 1, 1.4}, Policy: model.MissingAuto, Imputes: true}
}

// slow computes the mixture weights of one switching rate s directly from the formula.
type slow struct {
	shares []float64
	rate   float64
	trust  float64
}

func (s *slow) take(losses []float64) {
	least, sum, all := slices.Min(losses), 0.0, 0.0
	for i := range losses {
		all += s.shares[i]
		s.shares[i] *= math.Exp(-math.Min(mostLoss, losses[i]-least) / 2)
		sum += s.shares[i]
	}
	s.trust *= sum / all
	for i := range losses {
		s.shares[i] = (1-s.rate)*s.shares[i]/sum + s.rate*prior[i]
	}
}

// TestMixtureWeightsByFormula compares the mixture weights with the formula. They are the weights for several s, mixed
// by the losses of each s.
func TestMixtureWeightsByFormula(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	rates := []float64{1e-4, 1e-2, 0.3}
	s := NewWeights(prior, rates...)
	all := must.Map(rates, func(rate float64) *slow { return &slow{slices.Clone(prior), rate, 1.0 / 3} })
	for n := range 2000 {
		losses := []float64{r.ExpFloat64(), r.ExpFloat64(), 0.5}
		if n%50 == 0 { // more than mostLoss
			losses[n/50%2] += 30
		}
		if n > 1000 { // another prediction becomes the best
			losses[0] += 0.4
		}
		s.Take(losses)
		trust := 0.0
		for _, x := range all {
			x.take(losses)
			trust += x.trust
		}
		for _, x := range all {
			x.trust /= trust
		}
		for i := range prior {
			want := 0.0
			for _, x := range all {
				want += x.trust * x.shares[i]
			}
			got := s.Now(i)
			must.Require(t, math.Abs(got-want) <= 1e-9, "event %d, answer %d: %v, want %v", n, i, got, want)
		}
	}
	mix := s.Mix(nil)
	must.True(t, math.Abs(mix[0]+mix[1]+mix[2]-1) <= 1e-12 && mix[2] >= 0.5, "the shares are %v", mix)
}

// TestMixtureWeightsAtTheEdges checks three edge cases. A prediction that is not available keeps its relative weight.
// Infinite losses do not exclude a prediction forever. A weight below 0.01 counts as 0.
func TestMixtureWeightsAtTheEdges(t *testing.T) {
	s := NewWeights(prior, 0)
	s.Take([]float64{1, 2, math.NaN()})
	got := s.Now(2)
	must.True(t, math.Abs(got-0.1) <= 1e-12, "an answer that was not to be had has the share %v", got)
	a, b := s.Now(0), s.Now(1)
	must.True(t, math.Abs(a+b-0.9) <= 1e-12 && math.Abs(a/b-8*math.Exp(0.5)) <= 1e-9, "of the others %v and %v", a, b)
	s.Take([]float64{math.NaN(), math.NaN(), math.NaN()})
	got = s.Now(2)
	must.True(t, math.Abs(got-0.1) <= 1e-12, "where no answer was to be had a share is %v", got)
	s = NewWeights(prior, 0.001)
	for range 200 {
		s.Take([]float64{math.Inf(1), 0, 3})
	}
	mix := s.Mix(nil)
	must.True(t, mix[0] == 0 && mix[2] == 0 && mix[1] == 1, "the mixture is %v", mix)
	for n := 0; s.Mix(nil)[0] < 0.5; n++ {
		s.Take([]float64{0, 1, 1})
		must.Require(t, n <= 100, "after %d events the best answer has the share %v", n, s.Mix(nil))
	}
}

// TestMixtureWeightsRegret checks that the total loss of the mixture exceeds the total loss of the best prediction by
// only a small amount.
func TestMixtureWeightsRegret(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	s := NewWeights(prior, wholeRates...)
	lost, best := 0.0, make([]float64, 3)
	const n = 5000
	for range n {
		losses := []float64{0.5 + 0.2*r.NormFloat64(), 0.45 + 0.2*r.NormFloat64(), 0.6}
		for i, weight := range s.Mix(nil) { // the log-loss is convex in the score
			lost += weight * losses[i]
		}
		for i, l := range losses {
			best[i] += l
		}
		s.Take(losses)
	}
	regret := lost - slices.Min(best)
	must.True(t, regret <= 25, "%v lost more than by the best answer", regret)
}

// TestMixtureOfRanges checks the weights in effect of a range that has had events, and of ranges without events.
func TestMixtureOfRanges(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	fold := New(settings())
	for range 40 {
		losses := must.List(len(prior)*len(fold.Scales), func(int) float64 { return r.Float64() })
		fold.take(0, losses)
	}
	for range 100 {
		fold.take(3, []float64{1, 1, 1, 1, 0, 1, 1, 1, 1})
		fold.ObservePolicies(3, [3]float64{0, 1, math.NaN()})
	}
	fold.Apply()
	p := fold.Policies()[2]
	must.True(t, fold.Largest(3) == 1 && p[0] >= 0.05 && p[1] <= 0.01 && p[2] >= 0.3 && &fold.Uncorrected(2)[0] == &fold.Uncorrected(0)[0], "in effect are %+v", fold.ranges)
	for range ownEnough {
		must.Require(t, fold.LearnsFromMasks(2), "masks are heeded no longer before enough events have come")
		fold.Own(2)
	}
	must.True(t, !fold.LearnsFromMasks(2) && fold.LearnsFromMasks(1), "masks are heeded where enough events have come, or not where none has")
}

// TestMixtureWeightsWithoutPredictions checks that an event without available predictions changes nothing, for any s.
func TestMixtureWeightsWithoutPredictions(t *testing.T) {
	s := NewWeights(prior, 1e-4, 1e-2)
	for range 50 {
		s.Take([]float64{0.3, 0.2, 0.9})
	}
	before := []float64{s.Now(0), s.Now(1), s.Now(2)}
	s.Take([]float64{math.NaN(), math.Inf(-1), math.NaN()})
	for i, was := range before {
		got := s.Now(i)
		must.True(t, math.Abs(got-was) <= 1e-12, "share %d is %v, it was %v", i, got, was)
	}
}

// TestMixtureWeightsRecover checks that an s with high losses keeps a small weight. With that weight it must recover
// within some hundred events.
func TestMixtureWeightsRecover(t *testing.T) {
	s := NewWeights(prior, 1e-5, 0.4)
	for range 20_000 {
		s.Take([]float64{0, 3, 3})
	}
	got := s.trust[1]
	must.True(t, got >= 1e-12 && got < 1.01e-12, "the s that moves most has the part %v", got)
	for n := range 400 {
		losses := []float64{3, 3, 3}
		losses[n/2%3] = 0
		s.Take(losses)
	}
	must.True(t, s.trust[1] >= 0.9, "where the best answer changes all the time the s that moves most has the part %v", s.trust[1])
}

// TestMixtureScales checks the scale factors that noise levels get. The mean factor must be below 1 for overconfident
// levels, and above 1 for underconfident levels.
func TestMixtureScales(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	for _, right := range []float64{0.7, 1, 1.4} {
		table := New(Settings{Components: 2, Scales: settings().Scales, Policy: model.MissingNone})
		sum := table.Uncorrected(0)[0] + table.Uncorrected(0)[1]
		must.True(t, math.Abs(sum-(0.8+0.1*(0.7+1.4))) <= 1e-12, "levels begin with %v in all", sum)
		for range 4000 {
			score := 2 * r.NormFloat64()
			label := r.Float64() < 1/(1+math.Exp(-right*score))
			var losses []float64
			for _, level := range []float64{1, 0.1} { // the second noise level's scores are near 0
				for _, scale := range table.Scales {
					f := scale * level * score
					if !label {
						f = -f
					}
					losses = append(losses, math.Log1p(math.Exp(-f)))
				}
			}
			table.take(0, losses)
		}
		table.Apply()
		got := table.Uncorrected(0)
		must.True(t, math.Abs(got[0]-right) <= 0.13 && got[1] <= 0.1, "scores that should count %v times count %v", right, got)
	}
}

// TestMixtureCorrected checks the mixture weight of the correcting experts, relative to the other components, by
// range. Before any evidence a range with missing fields has a small weight, and then starts with the weight for complete
// events.
func TestMixtureCorrected(t *testing.T) {
	c, corrects := settings(), true
	c.Corrects = func() bool { return corrects }
	table := New(c)
	for r := range Ranges {
		want := must.Either(r == 0, 0.5, 0.03)
		got := table.Corrected(r)
		must.True(t, math.Abs(got-want) <= 1e-12, "range %d begins with %v, want %v", r, got, want)
	}
	for range 300 {
		table.ObserveCorrected(0, 1, 0.9)
	}
	for range 300 {
		table.ObserveCorrected(2, 0.9, 1.2)
	}
	table.ObserveCorrected(1, 1, 1)
	table.Apply()
	whole, own := table.Corrected(0), table.Corrected(2)
	first := table.Corrected(1)
	must.True(t, math.Abs(first-whole) <= 0.05, "after one event a range has the share %v, and complete events have %v", first, whole)
	must.True(t, whole >= 0.9 && own <= 0.3 && table.Corrected(3) == whole, "the shares are %v, %v where it does badly, and %v where nothing is known", whole, own, table.Corrected(3))
	must.True(t, slices.Equal(table.Uncorrected(0), New(settings()).Uncorrected(0)), "the shares of the levels have moved")
	corrects = false
	weights := table.Weights(0)
	must.True(t, weights[len(weights)-1] == 0 && table.Corrected(0) == 0 && table.Counts(), "experts that must not correct have weight, or lose what they have learned")
}

// TestPoliciesEarn checks that a missing policy that loses is not in effect, and that imputation without imputed values
// counts as none. Rescaling multiplies scores, so that a small weight of it makes answers too sure.
func TestPoliciesEarn(t *testing.T) {
	m := New(Settings{Components: 1, Scales: []float64{1}, Policy: model.MissingAuto, Imputes: true})
	for range 2000 {
		m.ObservePolicies(4, [3]float64{0.68, 0.72, 0.68}) // nothing was imputed: the loss of none
	}
	m.Apply()
	in := m.Policies()[3]
	must.True(t, in[1] == 0 && math.Abs(in[0]+in[2]-1) <= 1e-12 && in[3] == 0, "rescaling loses and is in effect: %v", in)
	must.Equal(t, (model.PolicyWeights{0.02, 0.08, 0.9}).Plain(), model.PolicyWeights{0.92, 0.08, 0}, "without imputed values the weights")
	for range 200 {
		m.ObservePolicies(4, [3]float64{0.70, 0.60, 0.70})
	}
	m.Apply()
	must.True(t, m.Policies()[3][1] >= 0.5, "rescaling is best now, with weights %v", m.Policies()[3])
}

// TestComponentsWithoutWeights checks the weights in effect if all components are idle, and if all others had no
// weight.
func TestComponentsWithoutWeights(t *testing.T) {
	w := NewComponents([]float64{0.5, 0.5, 0})
	w.Apply(func(int) bool { return true })
	must.EqualSlices(t, w.Weights, []float64{0, 0, 0})
	w.Apply(func(component int) bool { return component < 2 })
	must.EqualSlices(t, w.Weights, []float64{0, 0, 1})
}

// TestTemperature divides log-odds by a factor and checks that Temperature learns that factor. It also checks the
// initial value.
func TestTemperature(t *testing.T) {
	for _, want := range []float64{0.5, 2} {
		r := rand.New(rand.NewPCG(3, 4))
		var c Temperature
		for range 20_000 {
			f, y := 2*r.NormFloat64(), -1.0
			if r.Float64() < 1/(1+math.Exp(-want*f)) {
				y = 1
			}
			c.Learn(func(factor float64) float64 { return math.Log1p(math.Exp(-y * factor * f)) })
		}
		if c := NewTemperature(want); math.Abs(c.Factor()-want) > 1e-12 {
			t.Errorf("one of %v begins with %v", want, c.Factor())
		}
		got := c.Factor()
		must.True(t, math.Abs(got/want-1) <= 0.1, "the factor is %v, want %v", got, want)
	}
}

// TestTemperatureOfInfiniteLosses checks that a gradient that is NaN or infinite does not change a temperature.
func TestTemperatureOfInfiniteLosses(t *testing.T) {
	for name, lost := range map[string]func(factor float64) float64{
		"no number":        func(float64) float64 { return math.NaN() },
		"above all bounds": func(factor float64) float64 { return map[bool]float64{true: math.Inf(1), false: 1}[factor > 1.5] },
		"below":            func(factor float64) float64 { return map[bool]float64{true: math.Inf(-1), false: 1}[factor > 1.5] },
	} {
		tm := NewTemperature(1.5)
		tm.Learn(lost)
		must.True(t, tm == NewTemperature(1.5), "%s: %+v", name, tm)
		for range 100 {
			tm.Learn(func(factor float64) float64 { return factor })
		}
		must.True(t, tm.Factor() < 1.4 && tm.Factor() > 0, "%s: afterwards the factor is %v", name, tm.Factor())
	}
}

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
		forecast, deviation := f.Of(&f.Features, 0)
		for _, point := range []int{0, 3, 5, 9} {
			d := Missing(point)
			off := forecast[point] - (0.1 + 0.2*d + 0.3*d*d*d)
			gap, told = gap+off*off, told+deviation[point]*deviation[point]
			if math.Abs(off) > 2*deviation[point] {
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
	x, deviation := f.Of(&f.Features, 0)
	must.True(t, x[0] != x[0] && deviation[0] != deviation[0], "nothing has been forecast, and it is %v ± %v", x, deviation)
	f.Whole.Add(1, Losses{0.5})
	x, deviation = f.Of(&f.Features, 0)
	must.True(t, x[5] != x[5] && deviation[5] != deviation[5], "nothing is known of masks, and the forecast is %v ± %v", x, deviation)
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
		got, _ := f.Of(&f.Features, 0)
		must.True(t, math.Abs(got[point]-want) < 0.02, "forecast %.3f at point %d, want %.3f", got[point], point, want)
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
	dead := must.Count(len(m.Last), func(i int) bool { return m.Last[i] < point })
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

// TestForecastsOfCurves checks that a silent curve without masks is the curve of the same features or groups that are
// declared, and that no forecast is negative.
func TestForecastsOfCurves(t *testing.T) {
	var f Forecasts
	var none [Points]Losses
	f.Whole.Add(1, Losses{0.1})
	f.Features.Add(1, Losses{}, &[Points]Losses{5: {0.4}, 9: {0.8}})
	f.Groups.Add(1, Losses{1}, &none) // better than the whole event by 1
	for declared, silent := range map[*Curve]*Curve{&f.Features: &f.SilentFeatures, &f.Groups: &f.SilentGroups} {
		want, deviation := f.Of(declared, 0)
		got, same := f.Of(silent, 0)
		must.True(t, got == want && same == deviation, "silent: %v ± %v, declared: %v ± %v", got, same, want, deviation)
		must.True(t, slices.Min(want[:]) >= 0 && want[0] == 0.1, "forecasts %v", want)
	}
}
