package papers

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"blankout/batch"
	"blankout/batch/svm"
	"blankout/internal/event"
	"blankout/internal/must"
)

// TestLeast checks that Least returns the setting with the lowest loss. Equal losses are decided by the lower tie, then
// by the order. NaN must never win against a number.
func TestLeast(t *testing.T) {
	settings := []Held{{math.NaN(), 0}, {3, 1}, {2, 5}, {2, 4}, {2, 4}, {9, 0}}
	of := func(i int) Held { return settings[i] }
	if got := Least(len(settings), nil, of); got != 3 {
		t.Errorf("%d is the least", got)
	}
	if got := Least(len(settings), func(i int) bool { return i == 5 }, of); got != 5 {
		t.Errorf("%d is the least of those wanted", got)
	}
	if got := Least(len(settings), func(i int) bool { return false }, of); got != -1 {
		t.Errorf("%d of none", got)
	}
}

// TestPoints checks the names, settings and order of the points of a grid. The last axis must vary fastest.
func TestPoints(t *testing.T) {
	m := Method{Name: "x", Config: batch.DefaultConfig(), Grid: []Axis{{"c", []string{"1", "10"}}, {"q", []string{"0.3", "0.5"}}}}
	points, err := m.Points()
	if err != nil || len(points) != 4 {
		t.Fatal(len(points), err)
	}
	for i, want := range []string{"c = 1, q = 0.3", "c = 1, q = 0.5", "c = 10, q = 0.3", "c = 10, q = 0.5"} {
		p := points[i]
		if p.Name != want || len(p.Values) != 2 || fmt.Sprintf("c = %g, q = %s", p.Settings.Cost, strings.TrimPrefix(p.Settings.Noise, "dropout:")) != want {
			t.Errorf("%+v, want %s", p, want)
		}
	}
	for _, axis := range []Axis{{"c", []string{"-1"}}, {"c", []string{"x"}}, {"colour", []string{"1"}}} {
		m.Grid = []Axis{axis}
		if _, err := m.Points(); err == nil {
			t.Errorf("%+v is accepted", axis)
		}
	}
}

// TestSelectMachine checks that the best kernel machine separates two rings, that a chain gives the results of separate
// training, and that the number of threads does not matter.
func TestSelectMachine(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	var b batch.Builder
	for i := range 120 { // two concentric rings
		angle, radius := 2*math.Pi*r.Float64(), float64(1+i%2)+0.2*r.NormFloat64()
		e := event.Example{Label: i % 2, Weight: 1, Features: event.Vec{Index: []uint32{0, 1}, Value: []float64{radius * math.Cos(angle), radius * math.Sin(angle)}}}
		must.Do(t, b.Add(&e))
	}
	d := b.Data(event.NewSchema(8, []string{"-1", "1"}, 2))
	axes := []Axis{{"keep", []string{"0.5", "0.9"}}, {"drop-q", []string{"0", "auto", "0.3"}}, {"epochs", []string{"2", "inf"}}, {"c", []string{"0.1", "10"}}}
	m := machine{Config: batch.DefaultConfig(), Kernel: svm.DefaultConfig()}
	m.Kernel.Kernel = "rbf:0.5"
	m.Kernel.Kept = &svm.KeptGram{}
	all := must.Get(selectMachine(t.Context(), d, d, m, axes, 1))(t)
	again := must.Get(selectMachine(t.Context(), d, d, m, axes, 3))(t)
	if len(all) != 24 || all[1].name != "keep = 0.5, drop-q = 0, epochs = 2, c = 10" {
		t.Fatalf("%d machines, the second %s", len(all), all[1].name)
	}
	for i, x := range all {
		alone := x.Kernel
		alone.Kept = nil
		fit := must.Get(svm.Train(t.Context(), d, x.Config, alone))(t)
		if want := 100 * fit.TrainError(d); math.Abs(x.Loss-want) > 1e-9 || again[i].Held != x.Held {
			t.Errorf("%s: error %v, alone %v; with three threads %v", x.name, x.Held, want, again[i].Held)
		}
	}
	if best := all[Least(len(all), nil, func(i int) Held { return all[i].Held })]; best.Loss > 5 {
		t.Errorf("the best, %s, has an error of %v %%", best.name, best.Loss)
	}
}
