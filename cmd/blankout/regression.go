package main

// This file formats the error measures of regression.

import (
	"fmt"
	"strings"

	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/measure"
	"blankout/internal/model"
	"blankout/online"
	"blankout/online/health"
)

// numberMeasures measures regression predictions.
type numberMeasures struct {
	loss loss.Loss
	sums measure.Numbers
}

func newNumberMeasures(lossName string) (*numberMeasures, error) {
	l, err := loss.Parse(lossName)
	return &numberMeasures{loss: l}, err
}

// add measures the score of an example. The argument by is the result of model.ScoreVariance for the example.
func (m *numberMeasures) add(e *event.Example, h *model.Head, score float64, by model.MissingVariance) {
	if e.Label >= 0 {
		value := h.Value(score)
		low, high := h.Interval(value, by)
		m.sums.Add(m.loss, e.Target, e.Weight, value, low, high, 1)
	}
}

// recentError formats the recent error of a learner.
func recentError(m *online.Report) string {
	if n := m.Numbers; n != nil {
		return fmt.Sprintf("MAE %.4g", n.Window.MAE())
	}
	return fmt.Sprintf("error %.2f %%", 100*m.Window.Error())
}

// baselinesLine formats the losses of baselines that use only the labels, as a suffix for a line of other measures. It
// returns "" if the losses are unknown.
func baselinesLine(b health.BaselineReport) string {
	var parts []string
	for _, x := range []struct {
		format string
		value  *float64
	}{{"mean of the targets MAE %.4g", b.MeanMAE}, {"last label MAE %.4g", b.LastMAE}, {"majority class %.4g %%", b.MajorityError}, {"class frequencies %.4g nats", b.PriorLogLoss}, {"last label %.4g %%", b.LastError}} {
		if x.value != nil {
			parts = append(parts, fmt.Sprintf(x.format, *x.value))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

// numbersLine formats a report in one line.
func numbersLine(r measure.NumbersReport) string {
	var parts []string
	add := func(format string, x *float64) {
		if x != nil {
			parts = append(parts, fmt.Sprintf(format, *x))
		}
	}
	add("MAE %.4g", r.MAE)
	add("RMSE %.4g", r.RMSE)
	add("R2 %.4f", r.R2)
	add("deviance %.4g", r.Deviance)
	if r.Coverage != nil {
		parts = append(parts, fmt.Sprintf("coverage %.1f %%", 100**r.Coverage))
	}
	return strings.Join(parts, ", ")
}
