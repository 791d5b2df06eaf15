package measure

import (
	"math"
	"strings"
	"testing"
)

func number(x float64) *float64 { return &x }

// TestStale checks that Stale lists the ages at which the weights predict worse than a constant prediction. Stale must
// compare log-losses or errors, and omit ages with too few events.
func TestStale(t *testing.T) {
	reports := []StaleLoss{
		{Events: 1000, Error: number(7), LogLoss: number(0.2)},
		{Age: 100, Events: 1000, Error: number(60), LogLoss: number(0.5), ConstantError: number(40), ConstantLogLoss: number(0.6)},
		{Age: 1000, Events: 1000, Error: number(30), LogLoss: number(0.7), ConstantError: number(40), ConstantLogLoss: number(0.6)},
		{Age: 10000, Events: 19, Error: number(99), LogLoss: number(9), ConstantError: number(40), ConstantLogLoss: number(0.6)},
	}
	for nats, want := range map[bool]string{true: "1000 events old they lose 0.7 nats, the class frequencies 0.6.", false: "100 events old they err 60 %, the most frequent class 40 %."} {
		if got := Stale(reports, nats); !strings.Contains(got, ": "+want) || strings.Contains(got, "10000") {
			t.Errorf("%v: %q", nats, got)
		}
	}
	reports[3].Events = 20
	if got := Stale(reports, true); !strings.Contains(got, "10000 events old") {
		t.Errorf("of 20 events: %q", got)
	}
	reports[3].LogLoss, reports[2].LogLoss = number(0.9), number(0.65) // differences within chance
	if got := Stale(reports[3:], true); got != "" {
		t.Errorf("of a difference that is chance: %q", got)
	}
	reports[2].LogLoss = number(0.59)
	if got := Stale(reports, true) + Stale([]StaleLoss{{Age: 100, Events: 999, Error: number(3), Deviance: number(8)}}, true); got != "" {
		t.Errorf("%q", got)
	}
}

// TestWorseThanConstant checks that WorseThanConstant warns if the class frequencies predict the events better than the
// model does.
func TestWorseThanConstant(t *testing.T) {
	r := ClassesReport{Examples: 100, Confusion: [][]float64{{60, 0}, {39, 1}}, Error: number(39), LogLoss: number(0.68)}
	if got := -0.6*math.Log(0.6) - 0.4*math.Log(0.4); !(got < 0.68) || !strings.Contains(r.WorseThanConstant(true), "log-loss 0.68 nats, that of the frequencies 0.673") {
		t.Errorf("%q, the entropy is %v", r.WorseThanConstant(true), got)
	}
	if got := r.WorseThanConstant(false); got != "" {
		t.Errorf("%q", got)
	}
	r.Error, r.LogLoss = number(41), number(0.67)
	if got := r.WorseThanConstant(false); !strings.Contains(got, "error 41 %, that of the class 40 %") || r.WorseThanConstant(true) != "" {
		t.Errorf("%q, %q", got, r.WorseThanConstant(true))
	}
	r.Examples = 99
	few := r.WorseThanConstant(false)
	r.Examples, r.Confusion = 100, [][]float64{{100, 0}, {0, 0}}
	if one := r.WorseThanConstant(false); few != "" || one != "" {
		t.Errorf("of few: %q, of one class: %q", few, one)
	}
}
