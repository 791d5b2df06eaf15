package staleness_test

import (
	"slices"
	"testing"

	"blankout/internal/event"
	"blankout/internal/measure"
	"blankout/internal/model"
	"blankout/online/staleness"
)

// linear returns a model with a constant score.
func linear(score float64) *model.Linear {
	return model.NewLinear(&event.Schema{}, "logistic", "none", [][]float64{{1, 0, 2}}, []float64{score})
}

// learn learns events up to the event number to, and makes the predictions that are due. Whenever a model is frozen, it
// calls frozen with the number of learned events.
func learn(a *staleness.Stale, from, to uint64, features, rows int, frozen func(n uint64)) {
	for n := from; n <= to; n++ {
		for i := range staleness.Ages {
			if m := a.Due(i, n); m != nil {
				a.Fresh(1, staleness.Lost{Loss: float64(n % 7)})
				a.Take(i, 1, staleness.Lost{Error: float64(n % 3), Loss: m.Intercept[0]}, staleness.Lost{Loss: float64(n % 7)}, staleness.Lost{Error: 1, Loss: float64(n % 2)})
			}
		}
		if a.Learned(n, features, rows, 8) {
			frozen(n)
			a.Freeze(n, linear(float64(n)))
		}
	}
}

// TestBudget checks the number of rows in frozen models. It must be at most a hundredth of the number of learned
// features, plus 2^13. If a model is too large, it must not be frozen, and nothing may be measured.
func TestBudget(t *testing.T) {
	for _, x := range []struct {
		rows, features, events int
		want                   []uint64
	}{
		{30000, 100, 61000, []uint64{22000, 53000}},
		{200000, 1000, 45000, []uint64{20000, 41000}},
		{9 << 20, 1 << 20, 3000, nil},
		{40, 1, 3000, []uint64{1000, 2000, 3000}},
	} {
		var a staleness.Stale
		var frozen []uint64
		learn(&a, 1, uint64(x.events), x.features, x.rows, func(n uint64) { frozen = append(frozen, n) })
		if !slices.Equal(frozen, x.want) {
			t.Errorf("%d rows, %d features: frozen at %v, want %v", x.rows, x.features, frozen, x.want)
		}
		if (a.Report(false) != nil) != (x.want != nil) {
			t.Errorf("%d rows: %+v", x.rows, a.Report(false))
		}
	}
}

// TestNotLearned checks that an event that was not learned changes nothing. Such an event has the same number as the
// event before.
func TestNotLearned(t *testing.T) {
	var a staleness.Stale
	learn(&a, 1, 999, 10, 50, nil)
	if !a.Learned(1000, 10, 50, 8) {
		t.Fatal("nothing is frozen at 1000")
	}
	was := a
	if a.Learned(1000, 10, 50, 8) || a != was {
		t.Error("frozen again at the same event")
	}
}

// TestReport checks that Report returns weighted means, and the deviance as the loss of regression. Stop must discard
// the models but not the measurements.
func TestReport(t *testing.T) {
	var a staleness.Stale
	a.Freeze(5, linear(0))
	a.Fresh(3, staleness.Lost{Error: 1, Loss: .5})
	a.Fresh(1, staleness.Lost{Error: 0, Loss: 2.5})
	a.Take(1, 3, staleness.Lost{Error: 1, Loss: 2}, staleness.Lost{Error: 1, Loss: .5}, staleness.Lost{Error: 0, Loss: 4})
	a.Take(1, 1, staleness.Lost{Error: 1, Loss: 6}, staleness.Lost{Error: 0, Loss: 2.5}, staleness.Lost{Error: 1, Loss: 8})
	a.Stop()
	if a.Due(1, 1006) != nil {
		t.Error("a model answers that has been let go")
	}
	r := a.Report(false)
	if len(r) != 2 || r[0].Age != 0 || r[1].Age != 1000 || *r[0].Error != .75 || *r[0].LogLoss != 1 || r[0].FreshError != nil || *r[1].Error != 1 || *r[1].LogLoss != 3 ||
		*r[1].FreshError != .75 || *r[1].FreshLogLoss != 1 || *r[1].ConstantError != .25 || *r[1].ConstantLogLoss != 5 || r[0].ConstantError != nil || r[1].Events != 2 || r[1].Deviance != nil {
		t.Errorf("%+v", r)
	}
	if p := measure.StaleLossPercent(r); *p[0].Error != 75 || *p[1].FreshError != 75 || *p[1].ConstantError != 25 || *r[0].Error != .75 || *p[1].LogLoss != 3 {
		t.Errorf("%+v in percent, and before %+v", p, r)
	}
	if r = a.Report(true); *r[1].Deviance != 3 || *r[1].FreshDeviance != 1 || r[1].LogLoss != nil || r[1].ConstantLogLoss != nil || *r[1].Error != 1 {
		t.Errorf("of numbers %+v", r)
	}
}
