package simulate

// This file trains a grid of models and chooses one for each nightmare (way in which features fail).

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"

	"blankout/batch"
	"blankout/internal/event"
	"blankout/internal/model"
)

// Method is a way to train a model, with a grid of settings to choose from.
type Method struct {
	Name   string
	Config batch.Config
	Grid   []batch.Axis
}

// Points returns the points of the Method's grid.
func (m Method) Points() ([]batch.Point[batch.Config], error) {
	points, err := batch.Grid(m.Config, m.Grid)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.Name, err)
	}
	return points, nil
}

// TrainedModel is a trained model that its Method may choose.
type TrainedModel struct {
	Method   string
	Settings string // name of the grid point
	Model    *model.Linear
	Seconds  float64 // training time in seconds
}

// TrainGrid trains every point of every method on d, in order. progress may be nil.
func TrainGrid(ctx context.Context, d *batch.Data, methods []Method, threads int, progress func(done, all int)) ([]TrainedModel, error) {
	var candidates []TrainedModel
	var configs []batch.Config
	for _, m := range methods {
		points, err := m.Points()
		if err != nil {
			return nil, err
		}
		for _, p := range points {
			p.Settings.Threads, p.Settings.Progress = 1, nil
			candidates, configs = append(candidates, TrainedModel{Method: m.Name, Settings: p.Name}), append(configs, p.Settings)
		}
	}
	tell := counted(len(configs), progress)
	err := batch.Each(ctx, cmp.Or(max(threads, 0), runtime.GOMAXPROCS(0)), len(configs), func(ctx context.Context, i int) error {
		c := &candidates[i]
		fit, err := batch.Train(ctx, d, configs[i])
		if err != nil {
			return fmt.Errorf("%s, %s: %w", c.Method, c.Settings, err)
		}
		c.Model, c.Seconds = fit.Model, fit.Seconds
		tell()
		return nil
	})
	if err != nil {
		return nil, err
	}
	return candidates, nil
}

// Choice is the setting that a method chooses for a nightmare. Its errors are measured in the same way as those of a
// Point.
type Choice struct {
	Method    string `json:"method"`
	Nightmare string `json:"nightmare"`
	Treatment
	Settings   string  `json:"settings"`
	Validation float64 `json:"validation_error"`
	Test       float64 `json:"test_error"`
	candidate  int
}

// Choose follows the protocol of Chen et al. (2014, section 4.2). For every nightmare and treatment, each method
// chooses the candidate with the lowest error on validation events in that nightmare. If several candidates have this
// error, it chooses the one with the lowest log-loss (for regression, the lowest MAE), or the first of several. The
// chosen candidate is measured on the test events. The Result has a Curve for each method. All candidates must share
// one Schema, with which the events have been decoded.
func (r *Replay) Choose(ctx context.Context, candidates []TrainedModel, validation, test []event.Example) (*Result, []Choice, error) {
	if len(candidates) == 0 {
		return nil, nil, errors.New("no candidates to choose from")
	}
	subject := func(c TrainedModel, examples []event.Example) *Subject {
		return &Subject{Name: c.Method, Examples: examples, Schema: c.Model.Schema, Model: c.Model}
	}
	var all []*Subject
	var methods []string
	for _, c := range candidates {
		all = append(all, subject(c, validation))
		if !slices.Contains(methods, c.Method) {
			methods = append(methods, c.Method)
		}
	}
	validated, err := r.Run(ctx, all)
	if err != nil {
		return nil, nil, fmt.Errorf("validation events: %w", err)
	}
	var choices []Choice
	out := &Result{}
	// The curves are sorted by family, then subject, then treatment.
	for f, family := range r.Families {
		splines := validated.Curves[f*len(candidates)*len(r.Treatments):]
		for _, method := range methods {
			for t, treatment := range r.Treatments {
				spline := Curve{Subject: method, Nightmare: family.Name, Treatment: treatment}
				for l, level := range family.Levels {
					held := func(i int) (h batch.Held) {
						h.Loss, h.Tie = splines[i*len(r.Treatments)+t].Points[l].errors()
						return h
					}
					best := batch.Least(len(candidates), func(i int) bool { return candidates[i].Method == method }, held)
					one := *r
					one.Families, one.Treatments, one.Progress = []Family{{family.Name, []Level{level}}}, []Treatment{treatment}, nil
					tested, err := one.Run(ctx, []*Subject{subject(candidates[best], test)})
					if err != nil {
						return nil, nil, fmt.Errorf("test events: %w", err)
					}
					p := tested.Curves[0].Points[0]
					p.Settings = candidates[best].Settings
					spline.Points = append(spline.Points, p)
					test, _ := p.errors()
					choices = append(choices, Choice{method, p.Nightmare, treatment, candidates[best].Settings, held(best).Loss, test, best})
					out.Seed, out.Repeat, out.Events, out.Numbers, out.BinEvents = tested.Seed, tested.Repeat, tested.Events, tested.Numbers, tested.BinEvents
				}
				out.Curves = append(out.Curves, spline)
			}
		}
	}
	return out, choices, nil
}
