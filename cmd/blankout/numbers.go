package main

// This file words the measures of labels that are numbers.

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/dustin/go-humanize"

	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/measure"
	"blankout/internal/model"
	"blankout/online"
	"blankout/online/watch"
)

// numberMeasures measures the values predicted for examples whose labels are numbers.
type numberMeasures struct {
	loss     loss.Loss
	examples int // labeled or not
	sums     measure.Numbers
}

func newNumberMeasures(lossName string) (*numberMeasures, error) {
	l, err := loss.Parse(lossName)
	return &numberMeasures{loss: l}, err
}

// add counts in an example that has a score; by is its model.ScoreVariance.
func (m *numberMeasures) add(e *event.Example, h *model.Head, score float64, by model.Lacked) {
	m.examples++
	if e.Label >= 0 {
		value := h.Value(score)
		low, high := h.Interval(value, by)
		m.sums.Add(m.loss, e.Target, e.Weight, value, low, high, 1)
	}
}

func (m *numberMeasures) print(w io.Writer) {
	fmt.Fprintf(w, "%-20s %s\n", "examples", humanize.Comma(int64(m.examples)))
	if m.sums.Weight > 0 {
		fmt.Fprintln(w, numbersLine(m.sums.Report(m.loss)))
	}
}

// encode writes what scripts read.
func (m *numberMeasures) encode(w io.Writer, refused int, unmet unseenReport, deleted deletionReport) error {
	return json.NewEncoder(w).Encode(struct {
		Examples int `json:"examples"`
		measure.NumbersReport
		deletionReport
		Unseen  unseenReport `json:"unseen"`
		Refused int          `json:"refused"` // and skipped
	}{m.examples, m.sums.Report(m.loss), deleted, unmet, refused})
}

// recentError words how far off a learner has been of late.
func recentError(m *online.Report) string {
	if n := m.Numbers; n != nil {
		return fmt.Sprintf("MAE %.4g", n.Window.MAE())
	}
	return fmt.Sprintf("error %.2f %%", 100*m.Window.Error())
}

// baselinesLine words what predictors that know the labels alone would have lost, behind other
// measures; "" where that is not known.
func baselinesLine(b watch.BaselineReport) string {
	var parts []string
	for _, x := range []struct {
		format string
		value  *float64
	}{{"mean of the targets MAE %.4g", b.MeanMAE}, {"last label MAE %.4g", b.LastMAE}, {"last label %.4g %%", b.LastError}} {
		if x.value != nil {
			parts = append(parts, fmt.Sprintf(x.format, *x.value))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

// numbersLine words a report in one line.
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
