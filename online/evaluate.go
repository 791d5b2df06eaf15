package online

// This file evaluates the published model, to compare it with an exact solution.

import (
	"context"

	"blankout/internal/event"
	"blankout/internal/measure"
	"blankout/online/evaluate"
)

// Evaluate returns the result of evaluate.Objective for the published model. The objective is for the noise of the
// level with the largest mixture weight.
func (l *Learner) Evaluate(ctx context.Context, s event.Source, threads int) (objective, wrong float64, numbers *measure.NumbersReport, err error) {
	e := l.encoder
	l.predictor.experts.Publish(e.Table)
	m := evaluate.Model{
		Linear: l.model(e.Schema(), e.Table).Compact().WithSeparateOutputs(), Noise: l.predictor.noise(0), Loss: l.set.levels.Loss, C: l.config.C, Penalized: l.config.Intercept == "penalized",
		Bound: l.levels.Grouped() || e.Scaling.Scaler.Splines != nil, Classes: l.classes, Active: l.outputs.active(l.levels.Active()), Decision: l.monitors.Decision(), Dead: e.ReadsWhenDead,
	}
	if l.targets != nil {
		m.Unit = &l.targets.unit
	}
	return evaluate.Objective(ctx, m, s, threads)
}
