package papers

// This file searches grids of settings for the settings that predict best.

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"blankout/batch"
	"blankout/batch/svm"
	"blankout/internal/event"
	"blankout/internal/measure"
	"blankout/internal/model"
)

// Axis is a setting, named by its key, and the values to try.
type Axis struct {
	Key    string
	Values []string
}

// Held is the loss of one setting on held-out examples. Tie decides between settings of equal Loss.
type Held struct{ Loss, Tie float64 }

// Least returns the index of the setting with the lowest loss among the settings that want accepts. Ties go to the
// first. A nil want accepts all settings. Least returns -1 if want accepts none.
func Least(n int, want func(i int) bool, of func(i int) Held) int {
	best := -1
	for i := range n {
		if want != nil && !want(i) {
			continue
		}
		if best >= 0 {
			a, b := of(i), of(best)
			if better := a.Loss < b.Loss || a.Loss == b.Loss && a.Tie < b.Tie; !better && !math.IsNaN(b.Loss) {
				continue
			}
		}
		best = i
	}
	return best
}

// least returns the index of the setting with the lowest loss. Ties go to the first.
func least(of []Held) int {
	return Least(len(of), nil, func(i int) Held { return of[i] })
}

// product returns the points of a grid, each as the values of the axes. The last axis varies fastest.
func product(axes []Axis) (points [][]string) {
	points = [][]string{nil}
	for _, axis := range axes {
		points = crossed(points, axis.Values, func(p []string, v string) []string { return append(slices.Clone(p), v) })
	}
	return points
}

// nameOf returns a readable name of a point, such as "c = 0.1, q = 0.5".
func nameOf(axes []Axis, values []string) string {
	return strings.Join(mapped(rowsFrom(0, len(values)), func(k int) string { return axes[k].Key + " = " + values[k] }), ", ")
}

// Method is a way to train a linear model, with a grid of settings to choose from.
type Method struct {
	Name   string
	Config batch.Config
	Grid   []Axis
}

// Point is a point of a Method's grid.
type Point struct {
	Name     string
	Settings batch.Config
}

// Points returns the points of the Method's grid, the last axis fastest. It panics if a setting is wrong.
func (m Method) Points() (points []Point) {
	for _, values := range product(m.Grid) {
		p := Point{nameOf(m.Grid, values), m.Config}
		for k, v := range values {
			setKey(&p.Settings, m.Grid[k].Key, v)
		}
		impossible(p.Settings.Check())
		points = append(points, p)
	}
	return points
}

// number returns the number that a constant text has.
func number(text string) float64 {
	x, err := strconv.ParseFloat(text, 64)
	impossible(err)
	return x
}

// setKey changes one setting: the cost c, the dropout level q, or the number k of deleted features that fdrop expects.
func setKey(c *batch.Config, key, value string) {
	switch key {
	case "c":
		c.Cost = number(value)
	case "q":
		c.Noise = "dropout:" + value
	case "k":
		name, _, _ := strings.Cut(c.Loss, ":")
		c.Loss = name + ":" + value
	default:
		panic("papers: no setting " + key)
	}
}

// machine holds the settings of a kernel machine.
type machine struct {
	Config batch.Config
	Kernel svm.Config
}

// set changes one setting of the machine.
func (m *machine) set(key, value string) {
	if key == "c" {
		setKey(&m.Config, key, value)
	} else {
		impossible(m.Kernel.Set(key, value))
	}
}

// tried is a machine of a grid and its error on held-out examples, in percent.
type tried struct {
	machine
	name string
	Held
}

// selectMachine trains every point of a grid around first on d, and measures it on held. Machines that differ only in
// their cost, which must be the last axis, share their kernel matrices. The result is in the order of the grid, and does
// not depend on the number of threads.
func selectMachine(ctx context.Context, d, held *batch.Data, first machine, axes []Axis, threads int) ([]tried, error) {
	points := product(axes)
	all, length := make([]tried, len(points)), 1
	for i, values := range points {
		all[i].machine, all[i].name = first, nameOf(axes, values)
		for k, v := range values {
			all[i].set(axes[k].Key, v)
		}
		impossible(all[i].Kernel.Check(all[i].Config))
	}
	if last := axes[len(axes)-1]; last.Key == "c" {
		length = len(last.Values)
	}
	chains := slices.Collect(slices.Chunk(all, length))
	workers := min(max(threads, 1), len(chains))
	err := batch.Each(ctx, workers, len(chains), func(ctx context.Context, i int) error {
		kept := &svm.Matrices{}
		if workers == 1 && first.Kernel.Kept != nil {
			kept = first.Kernel.Kept
		}
		for j := range chains[i] {
			x := &chains[i][j]
			c, k := x.Config, x.Kernel
			c.Threads, k.Kept, k.Memory = 1, kept, k.Memory/workers
			fit, err := svm.Train(ctx, d, c, k)
			if err != nil {
				return fmt.Errorf("%s: %w", x.name, err)
			}
			x.Held = heldOut(fit.Model, held)
		}
		return nil
	})
	return all, err
}

// heldOut returns the error of a model on d, in percent, and its log-loss.
func heldOut(trained model.Model, d *batch.Data) Held {
	m := measure.NewEvaluation(len(d.Schema.Classes))
	scores, probabilities := make([]float64, max(trained.About().Outputs, len(d.Schema.Classes))), make([]float64, max(len(d.Schema.Classes), 2))
	var x event.Vec
	for i := range d.Rows() {
		x = d.Vec(i, x)
		s := trained.ScoreVec(x, scores)
		probabilities = trained.About().Probabilities(s, probabilities)
		m.Add(d.Label(i), d.Weight(i), s, model.Predict(s), probabilities)
	}
	r := m.Report()
	if r.Error == nil {
		return Held{math.NaN(), math.NaN()}
	}
	return Held{*r.Error, *r.LogLoss}
}
