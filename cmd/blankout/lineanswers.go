package main

// This file writes the output of run --answers: one line for each record.

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"

	"blankout/internal/event"
	"blankout/internal/loss"
	"blankout/internal/measure"
	"blankout/online"
)

// lineAnswers writes one line of JSON for each record.
type lineAnswers struct {
	out    *bufio.Writer
	lines  *json.Encoder
	schema *event.Schema
	chance []float64
	n      int
	// learner returns the name of the learner that predicts, or "" if there is only one learner. lost is Learner.Lost.
	learner func() string
	lost    func(*event.Example) (missing, stuck []string)
}

// newLineAnswers returns a lineAnswers for events of a Schema.
func newLineAnswers(to io.Writer, s *event.Schema, learner func() string, lost func(*event.Example) (missing, stuck []string)) *lineAnswers {
	out := bufio.NewWriterSize(to, 1<<16)
	return &lineAnswers{out: out, lines: json.NewEncoder(out), schema: s, learner: learner, lost: lost}
}

// lineAnswer is the content of one line.
type lineAnswer struct {
	Record        int                `json:"record"` // number of the record in this run, from 0
	ID            string             `json:"id,omitempty"`
	Learner       string             `json:"learner,omitempty"` // learner that predicted, if there are several
	Class         string             `json:"class,omitempty"`   // predicted class; none before the first class appears
	Probability   *float64           `json:"probability,omitempty"`
	Probabilities map[string]float64 `json:"probabilities,omitempty"`
	Value         *float64           `json:"value,omitempty"`   // predicted value, for regression
	Missing       []string           `json:"missing,omitempty"` // names of the missing fields
	Stuck         []string           `json:"stuck,omitempty"`   // those of them that are stuck at a value
	Error         string             `json:"error,omitempty"`   // reason why the record was rejected
}

// add writes the line of an event. It flushes the output at the end of a batch.
func (a *lineAnswers) add(e *event.Example, p *online.Prediction) error {
	if e == nil {
		if err := a.out.Flush(); err != nil {
			return fmt.Errorf("writing answers: %w", err)
		}
		return nil
	}
	line := lineAnswer{Record: a.n, ID: string(e.Key), Learner: a.learner()}
	a.n++
	switch {
	case e.Refused != nil:
		line.Error = e.Refused.Error()
	case p == nil || p.Refused:
		line.Error = "its columns or class do not fit in learner.max_memory"
	case a.schema.Target != loss.Sign:
		line.Value = measure.Defined(p.Value)
	default:
		a.classes(p, &line)
	}
	if line.Error == "" {
		line.Missing, line.Stuck = a.lost(e)
	}
	if err := a.lines.Encode(line); err != nil {
		return fmt.Errorf("writing answers: %w", err)
	}
	return nil
}

// classes sets the fields of line that hold a classifier's prediction.
func (a *lineAnswers) classes(p *online.Prediction, line *lineAnswer) {
	k := max(2, len(p.Scores))
	a.chance = p.Decision.Probabilities(p.Scores, slices.Grow(a.chance[:0], k)[:k])
	line.Probabilities = map[string]float64{}
	for i, name := range a.schema.Classes[:min(k, len(a.schema.Classes))] {
		if name != "" && !math.IsNaN(a.chance[i]) {
			line.Probabilities[name] = a.chance[i]
		}
	}
	if class := p.Decision.Predict(p.Scores); class < len(a.schema.Classes) && a.schema.Classes[class] != "" {
		line.Class, line.Probability = a.schema.Classes[class], &a.chance[class]
	}
}
