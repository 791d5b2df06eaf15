package health

import (
	"bytes"
	"slices"
	"testing"

	"blankout/internal/event"
	"blankout/internal/measure"
	"blankout/internal/model"
	"blankout/internal/must"
)

// linear returns a model with a constant score.
func linear(score float64) *model.Linear {
	return model.NewLinear(&event.Schema{}, "logistic", "none", [][]float64{{1, 0, 2}}, []float64{score})
}

// TestStaleSchedule checks that models are frozen at multiples of a thousand events. For each age they must predict events
// at which their age differs by at most a tenth. Larger ages must have fewer predictions. A frozen model must be used
// for all ages without a model.
func TestStaleSchedule(t *testing.T) {
	var a staleness
	var frozen []uint64
	served := map[uint64][len(StaleAges)][]uint64{} // predicted events by model and age
	for n := uint64(1); n <= 60000; n++ {
		for i := range StaleAges {
			m := a.due(i, n)
			if m == nil {
				continue
			}
			born := uint64(m.Intercept[0])
			of := served[born]
			of[i] = append(of[i], n-1-born)
			served[born] = of
			a.add(i, 1, losses{}, losses{}, losses{})
		}
		if a.Learned(n, 100, 50, 8) {
			frozen = append(frozen, n)
			a.Freeze(n, linear(float64(n)))
		}
	}
	must.True(t, len(frozen) == 60 && frozen[0] == 1000 && frozen[1] == 2000, "frozen at %v", frozen)
	for born, want := range map[uint64][len(StaleAges)]bool{1000: {true, true, true}, 2000: {true, false, false}, 3000: {true, true, false}, 13000: {true, true, true}} {
		for i, ages := range served[born] {
			age := StaleAges[i]
			must.True(t, want[i] == (ages != nil), "the model of %d answers at ages %v, want some: %v", born, ages, want[i])
			must.True(t, ages == nil || slices.Min(ages) >= age*9/10 && slices.Max(ages) <= age*11/10, "the model of %d answers at ages %v for %d", born, ages, age)
		}
	}
	for i, want := range []int{10, 40, 133} {
		n := len(served[49000][i])
		must.True(t, n >= want*2/3 && n <= want*3/2, "a model answers %d events at age %d, want some %d", n, StaleAges[i], want)
	}
	places := map[uint64]bool{}
	for _, age := range served[49000][2] {
		places[age%predictEvery[2]] = true
	}
	must.True(t, len(places) >= 10, "they are at the places %v of a cycle", places)
}

// TestStaleWide checks a model with wide rows. It must be frozen less often, and must predict more events.
func TestStaleWide(t *testing.T) {
	var a staleness
	m := linear(0)
	for column := range uint32(wideRows) {
		m.Rows.Touch(column)
	}
	a.Freeze(1000, m)
	var n [len(StaleAges)]int
	for event := range uint64(13000) {
		for i := range StaleAges {
			if a.due(i, event) != nil {
				n[i]++
			}
		}
	}
	must.True(t, n[0] == 21 && n[1] >= 50 && n[1] <= 85 && n[2] >= 130 && n[2] <= 200, "%v answers", n)
}

// learn learns events up to the event number to, and makes the predictions that are due. Whenever a model is frozen, it
// calls frozen with the number of learned events.
func learn(a *staleness, from, to uint64, features, rows int, frozen func(n uint64)) {
	for n := from; n <= to; n++ {
		for i := range StaleAges {
			if m := a.due(i, n); m != nil {
				a.addFresh(1, losses{Loss: float64(n % 7)})
				a.add(i, 1, losses{Error: float64(n % 3), Loss: m.Intercept[0]}, losses{Loss: float64(n % 7)}, losses{Error: 1, Loss: float64(n % 2)})
			}
		}
		if a.Learned(n, features, rows, 8) {
			frozen(n)
			a.Freeze(n, linear(float64(n)))
		}
	}
}

// TestStaleBudget checks the number of rows in frozen models. It must be at most a hundredth of the number of learned
// features, plus 2^13. If a model is too large, it must not be frozen, and nothing may be measured.
func TestStaleBudget(t *testing.T) {
	for _, x := range []struct {
		rows, features, events int
		want                   []uint64
	}{
		{30000, 100, 61000, []uint64{22000, 53000}},
		{200000, 1000, 45000, []uint64{20000, 41000}},
		{9 << 20, 1 << 20, 3000, nil},
		{40, 1, 3000, []uint64{1000, 2000, 3000}},
	} {
		var a staleness
		var frozen []uint64
		learn(&a, 1, uint64(x.events), x.features, x.rows, func(n uint64) { frozen = append(frozen, n) })
		must.True(t, slices.Equal(frozen, x.want), "%d rows, %d features: frozen at %v, want %v", x.rows, x.features, frozen, x.want)
		must.True(t, (a.report(false) != nil) == (x.want != nil), "%d rows: %+v", x.rows, a.report(false))
	}
}

// TestStaleNotLearned checks that an event that was not learned changes nothing. Such an event has the same number as the
// event before.
func TestStaleNotLearned(t *testing.T) {
	var a staleness
	learn(&a, 1, 999, 10, 50, nil)
	must.Require(t, a.Learned(1000, 10, 50, 8), "nothing is frozen at 1000")
	was := a
	must.True(t, !a.Learned(1000, 10, 50, 8) && a == was, "frozen again at the same event")
}

// TestStaleReport checks that Report returns weighted means, and the deviance as the loss of regression. Stop must discard
// the models but not the measurements.
func TestStaleReport(t *testing.T) {
	var a staleness
	a.Freeze(5, linear(0))
	a.addFresh(3, losses{Error: 1, Loss: .5})
	a.addFresh(1, losses{Error: 0, Loss: 2.5})
	a.add(1, 3, losses{Error: 1, Loss: 2}, losses{Error: 1, Loss: .5}, losses{Error: 0, Loss: 4})
	a.add(1, 1, losses{Error: 1, Loss: 6}, losses{Error: 0, Loss: 2.5}, losses{Error: 1, Loss: 8})
	a.Stop()
	must.True(t, a.due(1, 1006) == nil, "a model answers that has been let go")
	r := a.report(false)
	must.True(t, len(r) == 2 && r[0].Age == 0 && r[1].Age == 1000 && *r[0].Error == .75 && *r[0].LogLoss == 1 && r[0].FreshError == nil && *r[1].Error == 1 && *r[1].LogLoss == 3 &&
		*r[1].FreshError == .75 && *r[1].FreshLogLoss == 1 && *r[1].ConstantError == .25 && *r[1].ConstantLogLoss == 5 && r[0].ConstantError == nil && r[1].Events == 2 && r[1].Deviance == nil,
		"%+v", r)
	p := measure.StaleLossPercent(r)
	must.True(t, *p[0].Error == 75 && *p[1].FreshError == 75 && *p[1].ConstantError == 25 && *r[0].Error == .75 && *p[1].LogLoss == 3, "%+v in percent, and before %+v", p, r)
	r = a.report(true)
	must.True(t, *r[1].Deviance == 3 && *r[1].FreshDeviance == 1 && r[1].LogLoss == nil && r[1].ConstantLogLoss == nil && *r[1].Error == 1, "of numbers %+v", r)
}

// TestInvalidStaleStates checks that negative sums are rejected, and a model with more outputs than the learner has.
func TestInvalidStaleStates(t *testing.T) {
	blocks := func(a *staleness) (out []event.Block) {
		for b := range must.Get(a.EachBlock())(t) {
			out = append(out, event.Block{Name: b.Name, Data: bytes.Clone(b.Data)})
		}
		return out
	}
	var a, b staleness
	learn(&a, 1, 2050, 10, 50, func(uint64) {})
	two := staleness{seen: a.seen}
	two.Freeze(10, model.NewLinear(&event.Schema{}, "logistic", "none", [][]float64{{1}, {2}}, []float64{0, 0}))
	must.Require(t, b.Restore(blocks(&two), 1) != nil, "a model of two outputs is taken")
	must.Do(t, b.Restore(blocks(&two), 2))
	a.now.loss = -1
	must.Require(t, b.Restore(blocks(&a), 1) != nil, "negative sums are taken")
}
