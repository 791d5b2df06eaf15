package svm

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"blankout/batch"
	"blankout/batch/internal/problems"
	"blankout/internal/event"
	"blankout/internal/must"
)

func TestSelect(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	var b batch.Builder
	for i := range 120 { // two concentric rings
		angle, radius := 2*math.Pi*r.Float64(), float64(1+i%2)+0.2*r.NormFloat64()
		e := event.Example{Label: i % 2, Weight: 1, Features: event.Vec{Index: []uint32{0, 1}, Value: []float64{radius * math.Cos(angle), radius * math.Sin(angle)}}}
		must.Do(t, b.Add(&e))
	}
	d := b.Data(event.NewSchema(8, []string{"-1", "1"}, 2))
	s := batch.Selection{Folds: 4, Seed: 1, Grid: []batch.Axis{{Key: "kernel", Values: []string{"linear", "rbf:0.5"}}, {Key: "drop-q", Values: []string{"0", "auto", "0.3"}},
		{Key: "keep", Values: []string{"0.5"}}, {Key: "epochs", Values: []string{"2", "inf"}}, {Key: "c", Values: []string{"0.1", "10"}}, {Key: "loss", Values: []string{"dropsvm", "dropsvm:square"}}}}
	s.Threads = 1
	m := Machine{Config: batch.DefaultConfig(), Kernel: DefaultConfig()}
	table, settings := must.Get2(batch.Select(t.Context(), d, m, s))(t)
	s.Threads = 3
	again, _ := must.Get2(batch.Select(t.Context(), d, m, s))(t)
	if fmt.Sprint(table) != fmt.Sprint(again) {
		t.Error("another table with another number of threads")
	}
	best := settings[table.Best[0]].Kernel
	if best.Kernel != "rbf:0.5" || len(table.Candidates) != 48 {
		t.Errorf("the best of %d is %s", len(table.Candidates), table.Name(table.Best[0]))
	}
	// A candidate of a chain must equal the result of Train.
	s.Threads, s.Folds, s.Validation = 1, 0, d
	m.Kernel.Kept = &KeptGram{}
	table, settings = must.Get2(batch.Select(t.Context(), d, m, s))(t)
	for i, n := range table.Candidates {
		alone := settings[i].Kernel
		alone.Kept = nil
		fit := must.Get(Train(t.Context(), d, settings[i].Config, alone))(t)
		if want := 100 * fit.TrainError(d); math.Abs(n.Error[0]-want) > 1e-9 {
			t.Errorf("%s: error %v, alone %v", table.Name(i), n.Error[0], want)
		}
	}
}

func TestSelectRefuses(t *testing.T) {
	x, y := problems.Gaussian(74, 20, 3, false)
	d := denseData(t, x, y, nil)
	for want, axis := range map[string]batch.Axis{
		"of a kernel":  {Key: "noise", Values: []string{"none"}},
		"no degree":    {Key: "degree", Values: []string{"2"}},
		"not negative": {Key: "drop-q", Values: []string{"-1"}},
		"positive":     {Key: "c", Values: []string{"0"}},
	} {
		m := Machine{Config: batch.DefaultConfig(), Kernel: DefaultConfig()}
		if _, _, err := batch.Select(t.Context(), d, m, batch.Selection{Folds: 2, Grid: []batch.Axis{axis}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}
