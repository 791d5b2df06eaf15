package batch

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"

	"blankout/batch/internal/problems"
	"blankout/internal/event"
	"blankout/internal/eventtest"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/internal/must"
)

// TestDeadValues checks the values of dead features that are computed from given raw readings.
func TestDeadValues(t *testing.T) {
	schema := event.NewSchema(20, []string{"-1", "1"}, 2)
	number := schema.AddField(event.Field{Name: "number", Kind: event.Numeric})
	often := schema.AddField(event.Field{Name: "often", Kind: event.Numeric})
	word := schema.AddField(event.Field{Name: "word", Kind: event.Categorical})
	var g DeadValueReadings
	var b Builder
	for i := range 200 {
		e := event.Example{Weight: 1}
		add := func(column uint32, x float64, field uint16) {
			eventtest.Put(&e, column, x, field)
		}
		zero := 0.0
		if i > 0 {
			zero = 1
		}
		if i%2 == 0 {
			add(1, 5*zero, number) // 1 of 100 readings is 0; half of the examples have no reading
		}
		add(2, 3*zero, often) // 1 of 200 readings is 0
		add(3, 1, word)
		if i != 7 {
			add(4, 2, 0) // omitted in 1 of 200 examples
		}
		if i%50 != 7 {
			add(5, 2, 0) // omitted in 1 of 50 examples
		}
		if i%5 != 0 {
			add(6, 2, 0) // present in 4 of 5 examples
		}
		g.Observe(&e, schema)
		must.Do(t, b.Add(&e))
	}
	for _, c := range []struct {
		column uint32
		want   float64
	}{
		{1, 0}, {2, 3 * 0.995}, {3, 0}, {4, 2 * 0.995}, {5, 0}, {6, 0}, {9, 0},
	} {
		if got := g.Value(c.column, schema); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("column %d: %v, want %v", c.column, got, c.want)
		}
	}
	of := DeathsOf(b.Data(schema))
	want := []float64{0, 3 * 0.995, 2 * 0.995, 0}
	for _, g := range []*DeadValueReadings{&g, of} {
		dead := g.Numbers(schema)
		if dead == nil || !slices.Equal(dead.Columns, []uint32{1, 2, 4, 5}) {
			t.Fatalf("numbers are %+v", dead)
		}
		for i := range want {
			if math.Abs(dead.Reads[i]-want[i]) > 1e-12 {
				t.Errorf("%+v, want %v", dead, want)
			}
		}
	}
	if dead := (&DeadValueReadings{}).Numbers(schema); dead != nil {
		t.Errorf("no column reads %+v", dead)
	}
	schema.Absent = event.AbsentMissing
	if got := g.Value(5, schema); got != 2 {
		t.Errorf("a column that is missing where it is left out reads %v", got)
	}
}

// TestDeathsApply solves problems with the values of dead features. It checks that the solution minimizes the expected
// loss over failures of the original events. The events have standardized readings, transforms, splines, and zeros that
// are omitted from the record.
func TestDeathsApply(t *testing.T) {
	x, y := problems.Gaussian(41, 300, 4, false)
	schema := event.NewSchema(20, []string{"-1", "1"}, 2)
	var fields []uint16
	for _, name := range []string{"a", "b"} {
		fields = append(fields, schema.AddField(event.Field{Name: name, Kind: event.Numeric}))
	}
	var examples []event.Example
	for i, row := range x {
		e := event.Example{Weight: 1, Offset: int64(i)}
		if y[i] > 0 {
			e.Label = 1
		}
		add := func(column uint32, x float64, field uint16) {
			eventtest.Put(&e, column, x, field)
		}
		add(1, math.Sinh(2*row[0]), fields[0]) // a heavy-tailed number
		if i%3 > 0 {
			add(2, row[1]+2, fields[1]) // rarely present, so it gets a presence column
		} else {
			e.Missing = nil
		}
		if i != 17 {
			add(3, row[2]+30, 0) // omitted in one example
		}
		add(4, row[3], 0)
		examples = append(examples, e)
	}
	knots := model.Splines{Columns: []uint32{1}, Knots: [][]float64{{-3, -1, 0.5, 2, 20}}}
	for _, c := range []struct {
		name  string
		mode  model.Standardize
		bends bool
		zeros bool // numbers are often 0, so that a dead number is 0
	}{{"as they came", model.StandardizeNone, false, false}, {"standardized", model.StandardizeAuto, false, false}, {"to 0", model.StandardizeAuto, false, true},
		{"curves", model.StandardizeAuto, true, false}, {"curves to 0", model.StandardizeAuto, true, true}} {
		examples := slices.Clone(examples)
		for i := 3; c.zeros && i < len(examples); i += 20 {
			examples[i].Features.Value = make([]float64, examples[i].Features.Len())
		}
		fit := Standardizer{Presence: true, Mode: c.mode}
		var b Builder
		var g DeadValueReadings
		for i := range examples {
			g.Observe(&examples[i], schema)
			fit.Observe(&examples[i], schema)
			must.Do(t, b.Add(&examples[i]))
		}
		d := b.Data(schema)
		var scaler *model.Linear
		if c.mode != model.StandardizeNone {
			d, scaler = must.Get2(fit.Fit(d))(t)
		}
		if c.bends {
			scaler.Scaler.Splines = &knots
			for i := range knots.Knots[0] {
				scaler.Rows.Touch(knots.BasisColumn(0, i))[model.StatInverse] = 1
			}
		}
		// standardized returns the standardized example after all columns in dead have failed.
		standardized := func(e *event.Example, dead map[uint32]bool) event.Vec {
			as := event.Example{Features: event.Vec{Index: e.Features.Index, Value: append([]float64(nil), e.Features.Value...)}}
			for i, column := range as.Features.Index {
				if dead[column] {
					as.Features.Value[i] = g.Value(column, schema)
				}
			}
			if dead[3] && len(as.Features.Index) < 4 && as.Features.Index[len(as.Features.Index)-2] != 3 { // column 3 is a 0 that was omitted
				as.Features = event.Vec{Index: []uint32{1, 2, 3, 4}, Value: []float64{as.Features.Value[0], as.Features.Value[1], g.Value(3, schema), as.Features.Value[2]}}
			}
			if scaler == nil {
				return as.Features
			}
			return scaler.Standardized(&as, event.Vec{})
		}
		if c.bends {
			b := Builder{Splines: &knots}
			for i := range examples {
				b.Fields(&examples[i])
				e := examples[i]
				e.Field, e.Features = nil, standardized(&e, nil)
				must.Do(t, b.Add(&e))
			}
			d = b.Data(schema)
		}
		d = must.Get(g.Apply(d, scaler))(t)
		// Compare the mean squared error over all possible failures of a few examples, by enumeration and by the
		// objective.
		w := make([]float64, d.Columns()+1)
		weight := map[uint32]float64{}
		for j := range d.Columns() {
			w[j] = 0.3*float64(j%5) - 0.4
			weight[d.Column(j)] = w[j]
		}
		w[d.Columns()] = 0.2
		n := loss.Silent{D: 0.5}
		for _, at := range []int{0, 1, 2, 17, 18, 40} {
			only := d.Subset([]int{at})
			o := newExpected(t, only, y[at:at+1], loss.Quadratic{}, n, 1, FreeIntercept)
			got := o.ValueGrad(w, nil) - Dot(w[:d.Columns()], w[:d.Columns()])
			want := 0.0
			e := &examples[at]
			columns := e.Features.Index
			if at == 17 {
				columns = []uint32{1, 2, 3, 4}
			}
			for _, q := range n.Rates() {
				for mask := range 1 << len(columns) {
					p, dead := 1.0, map[uint32]bool{}
					for i, column := range columns {
						if mask>>i&1 == 1 {
							p *= q
							dead[column] = true
						} else {
							p *= 1 - q
						}
					}
					v, f := standardized(e, dead), w[d.Columns()]
					for i, column := range v.Index {
						f += weight[column] * v.Value[i]
					}
					want += p * (f - y[at]) * (f - y[at]) / 4
				}
			}
			if math.Abs(got-want) > 1e-9*math.Abs(want) {
				t.Errorf("%s: example %d costs %v, by all deaths %v", c.name, at, got, want)
			}
		}
		if c.bends { // Newton's method finds the minimum too
			config := DefaultConfig()
			config.Noise = "silent:0.5"
			if f, err := Train(context.Background(), d, config); err != nil || !f.Converged {
				t.Error(fmt.Sprint(c.name, ": ", err))
			}
		}
	}
}
