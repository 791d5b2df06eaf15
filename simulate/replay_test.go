package simulate

import (
	"bytes"
	"context"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"blankout/batch"
	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/model"
	"blankout/internal/must"
	"blankout/online"
)

func family(t *testing.T, s string) Family {
	t.Helper()
	return must.Get(ParseFamily(s))(t)
}

// TestReplay compares the measures of a Replay with counts that the test computes. Two replays, one of which uses a
// single goroutine, must write equal files.
func TestReplay(t *testing.T) {
	m, examples := stream(4, 600, 3)
	weights := make([]float64, 12)
	copy(weights, []float64{1, -1, 2})
	other := model.NewLinear(m.Schema, "logistic:gaussian", "none", [][]float64{weights, weights, weights, make([]float64, 12)}, []float64{0, 1, 2, 3})
	learner := online.DefaultConfig()
	r := &Replay{
		Families:   []Family{family(t, "random:0,0.5"), family(t, "worst:1"), family(t, "noise:0.5@50%-100%")},
		Treatments: []Treatment{{Loss: model.LossDeclared}, {Loss: model.LossDeclared, Rescale: true}}, Repeat: 3, Seed: 11, Bins: 6,
	}
	subjects := []*Subject{{Name: "a", Examples: examples, Schema: m.Schema, Model: m}, {Name: "b", Examples: examples, Schema: m.Schema, Model: other},
		{Name: "c", Examples: examples, Schema: m.Schema, Learn: &learner}}
	result := must.Get(r.Run(context.Background(), subjects))(t)
	if len(result.Curves) != 3*(2+2+1) {
		t.Fatalf("%d curves", len(result.Curves))
	}
	// Compare model b in the nightmare random:0.5, rescaled, with counts that use the masks of the corrupter.
	p := result.Curves[3].Points[1]
	for repeat := range 3 {
		wrong := 0.0
		c := batch.Corrupter{Noise: loss.Dropout{Q: 0.5}, Seed: 11}
		for n := range examples {
			x := examples[n].Features.Clone()
			c.Vec(x, nil, n, repeat)
			if other.Predict(other.ScoreVec(x, make([]float64, 4))) != examples[n].Label {
				wrong++
			}
		}
		if want := 100 * wrong / 600; math.Abs(p.Errors[repeat]-want) > 1e-9 {
			t.Errorf("%s, repetition %d: error %g, want %g", p.Nightmare, repeat, p.Errors[repeat], want)
		}
	}
	if mean, low, high := meanAndBounds(p.Errors); p.Error != mean || *p.Low != low || *p.High != high || math.Abs(p.Deleted-50) > 2 {
		t.Errorf("%+v", p)
	}
	// The model from which the labels were computed can be wrong only on damaged events.
	window := result.Curves[2*(2+2+1)].Points[0]
	if got := window.Time; got[0] != 0 || got[2] != 0 || got[3] == 0 || got[5] == 0 || *window.Window != [2]int{300, 600} {
		t.Errorf("noise in the second half only: errors %v over time, window %v", got, window.Window)
	}
	var files [2]string
	for i := range files {
		files[i] = filepath.Join(t.TempDir(), "out")
		r.Threads = 2 - i
		again := must.Get(r.Run(context.Background(), subjects))(t)
		if !reflect.DeepEqual(again, result) {
			t.Error("another result at the second time")
		}
		names, err := again.Save(files[i])
		if err != nil || len(names) != 2+2*7 {
			t.Fatal(names, err)
		}
		for _, name := range names {
			data := must.Get(os.ReadFile(filepath.Join(files[i], name)))(t)
			if before, err := os.ReadFile(filepath.Join(files[0], name)); err != nil || !bytes.Equal(data, before) {
				t.Errorf("%s differs from replay to replay: %v", name, err)
			}
		}
	}
}

func TestMeanAndBounds(t *testing.T) {
	// In R, t.test(c(1, 2, 4)) gives the 95 % interval from -1.4612 to 6.1279.
	mean, low, high := meanAndBounds([]float64{1, 2, 4})
	if math.Abs(mean-7.0/3) > 1e-12 || math.Abs(low+1.461249) > 1e-5 || math.Abs(high-6.127916) > 1e-5 {
		t.Errorf("%g [%g, %g]", mean, low, high)
	}
}

// TestDead checks a removed feature whose mean is far from 0. If it is declared missing it counts as its mean, and if
// it silently is 0 it misleads the model. A feature without a value for silently missing features counts as its center.
func TestDead(t *testing.T) {
	m, examples := stream(2, 400, 5)
	schema := m.Schema
	shifted := &model.Linear{Head: m.Head, Rows: model.NewTable(1 + model.ScalerWidth)}
	shifted.Scaler = model.Scaler{Mode: model.StandardizeAll}
	shifted.Layout = model.Layout{Width: 1 + model.ScalerWidth, Stats: 1}
	for i := range m.Rows.Len() {
		column, row := m.Rows.Column(i)
		copy(shifted.Rows.Touch(column), []float64{row[0], 100, 0, 0, 100, 0.5}) // sets center 100 and scale 2
	}
	for i := range examples {
		x := examples[i].Features.Value
		for j := range x {
			x[j] = 100 + 2*x[j]
		}
	}
	groups := map[string][]event.Span{"half": {{From: 0, To: 6}}}
	r := &Replay{Families: []Family{{"", []Level{{Group{Name: "half"}, nan}, {None{}, nan}}}}, Treatments: []Treatment{{Loss: model.LossDeclared}, {Loss: model.LossDead}}, Repeat: 1, Groups: groups}
	result := must.Get(r.Run(context.Background(), []*Subject{{Name: "m", Examples: examples, Schema: schema, Model: shifted}}))(t)
	knows := *shifted
	knows.Dead = &model.Dead{Columns: []uint32{0, 1, 2, 3, 4, 5}, Reads: []float64{0, 0, 0, 0, 0, 0}}
	if again, err := r.Run(context.Background(), []*Subject{{Name: "m", Examples: examples, Schema: schema, Model: &knows}}); err != nil {
		t.Fatal(err)
	} else if result.Curves[1].Points[0].Error != result.Curves[0].Points[0].Error || again.Curves[0].Points[0].Error != result.Curves[0].Points[0].Error {
		t.Error("a feature does not read its center")
	} else {
		result.Curves[1] = again.Curves[1]
	}
	for i, dead := range []float64{0, -4} { // (0 - 100)/2 is clipped
		wrong := 0.0
		for n := range examples {
			x := examples[n].Features.Clone()
			for j, column := range x.Index {
				x.Value[j] = (x.Value[j] - 100) / 2
				if column < 6 {
					x.Value[j] = dead
				}
			}
			if m.Predict(m.ScoreVec(x, make([]float64, 1))) != examples[n].Label {
				wrong++
			}
		}
		if p := result.Curves[i].Points[0]; math.Abs(p.Error-wrong/4) > 1e-9 || wrong == 0 {
			t.Errorf("%s: error %g, want %g", result.Curves[i].Treatment, p.Error, wrong/4)
		}
		if p := result.Curves[i].Points[1]; p.Error != 0 {
			t.Errorf("%s: error %g where nothing dies", result.Curves[i].Treatment, p.Error)
		}
	}
	r.Families[0].Levels[0].Nightmare = Group{Name: "nobody"}
	if _, err := r.Run(context.Background(), []*Subject{{Name: "m", Examples: examples, Schema: schema, Model: shifted}}); err == nil || !strings.Contains(err.Error(), "nobody") {
		t.Errorf("a group that nothing belongs to: %v", err)
	}
}

// TestLearning reverses the effect of the best feature during the stream. A learner must adapt to the change, and a
// fixed model must have a larger error after the change.
func TestLearning(t *testing.T) {
	m, examples := stream(2, 4000, 5)
	c := online.DefaultConfig()
	c.Noise = "none"
	s := &Subject{Name: "learner", Examples: examples, Schema: m.Schema, Learn: &c}
	best, most := uint32(0), 0.0
	for d := range uint32(12) {
		if w := math.Abs(m.Weight(d, 0)); w > most {
			best, most = d, w
		}
	}
	r := &Replay{Families: []Family{{"", []Level{{None{}, nan}, {During{Linear{Group: "best", A: -1}, 50, 100, true}, nan}}}},
		Treatments: []Treatment{{Loss: model.LossDeclared, Rescale: true}, {Loss: model.LossDead}}, Repeat: 1, Bins: 4, Groups: map[string][]event.Span{"best": {{From: best, To: best + 1}}}}
	result := must.Get(r.Run(context.Background(), []*Subject{s, {Name: "fixed", Examples: examples, Schema: m.Schema, Model: m}}))(t)
	quiet, struck, fixed := result.Curves[0].Points[0], result.Curves[0].Points[1], result.Curves[2].Points[1]
	for i := range 2 {
		if quiet.Time[i] != struck.Time[i] {
			t.Errorf("quarter %d, before the burst: %g, without one %g", i, struck.Time[i], quiet.Time[i])
		}
	}
	if struck.Time[3] <= quiet.Time[3] || struck.Time[3] >= fixed.Time[3] {
		t.Errorf("last quarter: %g %% with the best feature turned round, %g %% without that, %g %% of a fixed model", struck.Time[3], quiet.Time[3], fixed.Time[3])
	}
}

// TestLearningQuiet runs a learner without a nightmare. Its error and log-loss must equal the learner's progressive
// error and log-loss, with calibration and threshold.
func TestLearningQuiet(t *testing.T) {
	m, examples := stream(2, 1000, 5)
	var before float64
	for _, calibrate := range []string{"off", "on"} {
		c := online.DefaultConfig()
		c.Calibrate, c.Threshold = calibrate, 0.3
		r := &Replay{Families: []Family{{"", []Level{{None{}, nan}}}}, Treatments: []Treatment{{Loss: model.LossDeclared, Rescale: true}}, Repeat: 1, Bins: 4}
		result := must.Get(r.Run(context.Background(), []*Subject{{Name: "learner", Examples: examples, Schema: m.Schema, Learn: &c}}))(t)
		learner := must.Get(online.New(c, m.Schema.Clone()))(t)
		for i := range examples {
			learner.Learn(&examples[i], nil)
		}
		got, want := result.Curves[0].Points[0], learner.Report().Total
		if math.Abs(got.Error-100*want.Error()) > 1e-9 || math.Abs(got.LogLoss-want.MeanLogLoss()) > 1e-9 || got.Error == before {
			t.Errorf("calibrate %v: error %g and log-loss %g, the learner says %g and %g", calibrate, got.Error, got.LogLoss, 100*want.Error(), want.MeanLogLoss())
		}
		before = got.Error
	}
}

// TestSilentLearner checks the values that a learner receives for silently missing features. A number must be the mean
// of its readings, or 0 if 0 is frequent. A word must be absent.
func TestSilentLearner(t *testing.T) {
	s := event.NewSchema(8, []string{"no", "yes"}, 2)
	for id, kind := range []event.Kind{event.Numeric, event.Numeric, event.Categorical} {
		s.AddField(event.Field{Name: string(rune('a' + id)), Kind: kind})
	}
	var examples, damaged []event.Example
	for i := range 200 {
		x := []float64{5 + float64(i%7), float64(i % 3), 1}
		e := event.Example{Features: event.Vec{Index: []uint32{1, 2, 3}, Value: x}, Field: []uint16{1, 2, 3}, Weight: 1}
		if i%7 > 3 {
			e.Label = 1
		}
		examples = append(examples, e)
	}
	mean := 0.0
	for i := range examples {
		mean += (examples[i].Features.Value[0] - mean) / float64(i+1)
	}
	nightmare := Random{Fraction: 0.5}
	ev := Event{Stage: &Stage{Schema: s, Seed: 5}}
	for n := range examples {
		e := examples[n]
		ev.Number, ev.X, ev.Field, ev.Dead = n, e.Features.Clone(), e.Field, make([]bool, 3)
		nightmare.Kill(&ev)
		for i, reads := range []float64{mean, 0} {
			if ev.Dead[i] {
				ev.X.Value[i] = reads
			}
		}
		if e.Features = ev.X; ev.Dead[2] {
			e.Features, e.Field = event.Vec{Index: ev.X.Index[:2], Value: ev.X.Value[:2]}, e.Field[:2]
		}
		damaged = append(damaged, e)
	}
	c := online.DefaultConfig()
	run := func(examples []event.Example, n Nightmare) Point {
		r := &Replay{Families: []Family{{"", []Level{{n, nan}}}}, Treatments: []Treatment{{Loss: model.LossDead}}, Repeat: 1, Seed: 5}
		result := must.Get(r.Run(context.Background(), []*Subject{{Name: "learner", Examples: examples, Schema: s, Learn: &c}}))(t)
		return result.Curves[0].Points[0]
	}
	got, want, whole := run(examples, nightmare), run(damaged, None{}), run(examples, None{})
	if got.Error != want.Error || got.LogLoss != want.LogLoss || got.LogLoss == whole.LogLoss {
		t.Errorf("error %v and log-loss %v, of the same events %v and %v, without deaths %v", got.Error, got.LogLoss, want.Error, want.LogLoss, whole.LogLoss)
	}
}

// TestSilentLoss checks which subjects the report names. It names the subject with the largest increase of the error
// that does not expect silently missing features, if that increase is large enough. It also names the best subject that
// expects them.
func TestSilentLoss(t *testing.T) {
	spline := func(name string, expects bool, treatment Treatment, errors ...float64) Curve {
		c := Curve{Subject: name, Nightmare: "random:0,0.5,0.7", Treatment: treatment, expects: expects}
		for i, x := range errors {
			c.Points = append(c.Points, Point{Nightmare: []string{"random:0", "random:0.5", "random:0.7"}[i], Deleted: []float64{0, 48, 71}[i], ClassErrors: &ClassErrors{Error: x}})
		}
		return c
	}
	declared, dead := Treatment{Loss: model.LossDeclared}, Treatment{Loss: model.LossDead}
	r := &Result{Curves: []Curve{
		spline("a", false, declared, 2, 10, 20), spline("a", false, declared, 2, 10, 20), spline("a", false, dead, 9, 18, 26),
		spline("b", true, declared, 2, 10, 20), spline("b", true, dead, 2, 21, 40), spline("c", true, declared, 2, 10, 20), spline("c", true, dead, 2, 12, 50),
	}}
	for i, want := range []string{
		"a at random:0.5: 18.0 % error if features are dead, 10.0 % error if they are declared missing; c, which expects dead features: 12.0 % error",
		"a at random:0.5: 18.0 % error if features are dead, 10.0 % error if they are declared missing; learner.silent_missing = 0.5 learns for dead features (--learn --learn=silent_missing=0.5 measures it)",
		"",
	} {
		if got := r.SilentLoss().String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		if r.Curves = r.Curves[:3]; i == 1 {
			r.Curves[2] = spline("a", false, dead, 9, 10.9, 20.9)
		}
	}
	// The cost in a nightmare with a window is relative to the length of the window. For regression, the report uses
	// the loss of the subject.
	r.Events, r.Numbers, r.Curves = 1000, true, nil
	for _, treatment := range []Treatment{declared, dead} {
		c := Curve{Subject: "d", Treatment: treatment, loss: "huber:2"}
		c.Points = []Point{{Nightmare: "random:0.3@75%-150%", Window: &[2]int{750, 1500}, Deleted: 7.5, NumberErrors: &NumberErrors{RMSE: 1}}}
		if treatment == dead {
			c.Points[0].RMSE = 2
		}
		r.Curves = append(r.Curves, c)
	}
	if got := r.SilentLoss(); math.Abs(got.Missing-0.3) > 1e-12 || got.String() != `d at random:0.3@75%-150%: an RMSE of 2 if features are dead, an RMSE of 1 if they are declared missing; `+
		`learner.silent_missing = 0.3 learns for dead features (--learn=loss=huber:2 --learn="loss=huber:2 silent_missing=0.3" measures it)` {
		t.Errorf("%+v: %s", got, got)
	}
	r.Numbers = false
	r.Curves = []Curve{spline("b", true, declared, 2, 10, 20), spline("b", true, dead, 2, 21, 40)}
	if got := r.SilentLoss().String(); got != "b at random:0.7: 40.0 % error if features are dead, 20.0 % error if they are declared missing" {
		t.Errorf("%q", got)
	}
}
